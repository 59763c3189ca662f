"""The keys of `await.transport`, by its type (contract 1.4, 9, 12.1)."""

from __future__ import annotations

from tpf_streams.dsl.keys import (
    Key,
    Kind,
    Table,
    Variants,
    choice,
    duration,
    integer,
    mapping,
    text,
)

WEBHOOK_TIMEOUT_MAX_MS = 10 * 60_000
_HEADERS = mapping(
    "Further headers of each request; none may begin with tpf-.",
    table=Table(each=Key(Kind.RAW_TEXT, "The value of this header."), names="[!-~]+"),
)


TRANSPORTS = ("interaction-api", "webhook", "kafka", "sqs")
_TYPE = {
    "type": choice("The transport.", required=True, choices=TRANSPORTS),
    "inputType": text("What requests are, where it is not the input: a declared type or package.module:Class."),
    "outputType": text("What answers are, where it is not the output: a declared type or package.module:Class."),
}
_URL = text("Where requests are sent, an http or https URL.")
_KAFKA = Table(
    _TYPE
    | {
        "request": mapping(
            "Where requests go.",
            required=True,
            missing="kafka await transport requires request.topic",
            table=Table(
                {
                    "topic": text("The topic.", required=True, missing="kafka await transport requires request.topic"),
                    "key": choice(
                        "The key of request records.",
                        choices=("interactionId", "correlationId"),
                        exact=True,
                        default="interactionId",
                    ),
                }
            ),
        ),
        "response": mapping(
            "Where answers come from.",
            required=True,
            missing="kafka await transport requires response.topic",
            table=Table(
                {"topic": text("The topic.", required=True, missing="kafka await transport requires response.topic")}
            ),
        ),
        "consumer": mapping("Who reads answers.", table=Table({"group": text("The consumer group.")})),
        "consumerGroup": text("Another spelling of consumer.group."),
        "headers": _HEADERS,
    },
    one_of=(("consumer", "consumerGroup"),),
)
_SQS = Table(
    _TYPE
    | {
        way: mapping(
            about,
            required=True,
            missing=f"sqs await transport requires {way}.queueUrl",
            table=Table(
                {
                    "queueUrl": text(
                        "The URL of a standard queue.",
                        required=True,
                        missing=f"sqs await transport requires {way}.queueUrl",
                    )
                }
            ),
        )
        for way, about in (("request", "Where requests go."), ("response", "Where answers come from."))
    }
)
_WEBHOOK = Table(
    _TYPE
    | {
        "request": mapping("Where requests go.", table=Table({"url": _URL})),
        "dispatch": mapping("Another place of request.url.", table=Table({"url": _URL})),
        "url": text("Another place of request.url."),
        "method": choice("Of the request.", choices=("POST", "PUT", "PATCH"), default="POST"),
        "timeout": duration("How long one request may take.", maximum=WEBHOOK_TIMEOUT_MAX_MS),
        "timeoutMillis": integer("The same in milliseconds.", minimum=1, maximum=WEBHOOK_TIMEOUT_MAX_MS),
        "headers": _HEADERS,
        "callback": mapping(
            "Where the partner sends its answer; told in the request.",
            table=Table(
                {
                    "completionUrl": text("The whole URL."),
                    "baseUrl": text("Its beginning, without the path."),
                    "completionPath": text("The path after baseUrl."),
                },
                one_of=(("completionUrl", "baseUrl"),),
            ),
        ),
    },
    some_of=(("request", "dispatch", "url"),),
    one_of=(("timeout", "timeoutMillis"),),
)

BY_TYPE = Variants("type", {"kafka": _KAFKA, "sqs": _SQS, "webhook": _WEBHOOK, "interaction-api": Table(_TYPE)})
