// What a JSON Schema says, as far as a form needs it.

const DEPTH = 8;

/** A type without its references and without null: {schema, optional}. `depth`: of references followed so far. */
export function resolved(schema, defs) {
  let optional = false;
  for (let i = 0; i < DEPTH; i += 1) {
    const others = schema.anyOf?.filter((it) => it.type !== "null");
    if (others?.length === 1 && schema.anyOf.length > 1) {
      optional = true;
      schema = others[0];
    } else if (schema.$ref) {
      schema = defs[schema.$ref.replace("#/$defs/", "")] ?? {};
    } else break;
  }
  return { schema, optional };
}

/** Which field a type is given in: choice, group, list, boolean, integer, text or json. */
export function kindOf(schema, depth) {
  if (depth > DEPTH) return "json";
  if (schema.oneOf?.every((it) => it.type === "object" && it.required?.length === 1)) return "choice";
  if (schema.type === "object" && schema.properties) return "group";
  if (schema.type === "array") return "list";
  if (schema.type === "boolean" || schema.type === "integer") return schema.type;
  return textual(schema) ? "text" : "json";
}

/** The part of a type that is given as text; a decimal as text is never rounded on its way. */
export const textual = (schema) =>
  schema.type === "string" ? schema : schema.anyOf?.find((it) => it.type === "string") ?? null;

const WORDS = {
  uuid: "an id like 123e4567-e89b-12d3-a456-426614174000",
  duration: "a duration like PT30M",
  "date-time": "a day and a time",
  date: "a day",
};
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;
const DURATION = /^-?P(?=.)(?:\d+[YMWD])*(?:T(?:\d+(?:\.\d+)?[HMS])+)?$/i;

/** What is wrong with the text of a field; empty: nothing. */
export function wrongText(schema, text) {
  const it = textual(schema);
  if (it.maxLength && text.length > it.maxLength) return `At most ${it.maxLength} characters are taken.`;
  const numeric = schema.anyOf?.some((one) => one.type === "integer" || one.type === "number");
  if (it.pattern && !new RegExp(it.pattern, "u").test(text))
    return numeric ? "A number is wanted, like 12.50, without blanks or commas." : `A text of the form ${it.pattern} is wanted.`;
  if (it.format === "uuid" && !UUID.test(text)) return `Wanted is ${WORDS.uuid}.`;
  if (it.format === "duration" && !DURATION.test(text)) return `Wanted is ${WORDS.duration}.`;
  return "";
}

export function wrongInteger(schema, text) {
  if (!/^-?\d{1,19}$/.test(text)) return "A whole number is wanted.";
  const number = BigInt(text);
  const { minimum, maximum } = schema;
  return (minimum !== undefined && number < BigInt(minimum)) || (maximum !== undefined && number > BigInt(maximum))
    ? `A whole number from ${minimum} to ${maximum} is wanted.`
    : "";
}

export function wrongJson(text) {
  try {
    JSON.parse(text);
    return "";
  } catch {
    return "JSON is wanted.";
  }
}

/** A name as people write it: `declineReason` -> `Decline reason`. */
export function spoken(name) {
  const words = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/[_-]+/g, " ").trim().toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
