"""Names and durations by the contract's vectors."""

from __future__ import annotations

import pytest

from tpf_streams.dsl.durations import parse_duration_ms
from tpf_streams.dsl.naming import is_topic, kebab_case, snake_case, step_id


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Await Payment Provider", "ProcessAwaitPaymentProviderService"),
        ("Process Csv Payments Input", "ProcessCsvPaymentsInputService"),
        ("Fraud Check", "ProcessFraudCheckService"),
        ("Process", "ProcessProcessService"),
        ("Process process", "ProcessProcessService"),
        ("process orders", "ProcessProcessOrdersService"),
        ("SEND e-mail_now", "ProcessSendEMailNowService"),
        ("  Brokered   Fraud Check ", "ProcessBrokeredFraudCheckService"),
        ("FraudCheck", "ProcessFraudcheckService"),
        ("***", ""),
    ],
)
def test_a_step_id_is_made_of_the_words_of_its_name(name, expected):
    assert step_id(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Restaurant Approval", "restaurant-approval"),
        ("csv-payments", "csv-payments"),
        ("csvPayments", "csv-payments"),
        ("Fraud_Check 2", "fraud-check-2"),
        ("--", ""),
    ],
)
def test_kebab_case(name, expected):
    assert kebab_case(name) == expected


def test_snake_case():
    assert snake_case("csvPaymentsInputFilePath") == "csv_payments_input_file_path"


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("PT5M", 300_000),
        ("PT0.5S", 500),
        ("PT0S", 0),
        ("P1DT12H", 129_600_000),
        ("P90D", 7_776_000_000),
        ("P2W", 1_209_600_000),
        ("PT1H30M10.250S", 5_410_250),
        ("PT1.5000S", 1500),
    ],
)
def test_durations(text, millis):
    assert parse_duration_ms(text) == millis


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "5M", "P1M", "P1Y", "PT-5M", "-PT5M", "PT5M ", "PT0.0001S", "PT1.5M", "P1DT", "pt5m", "P101W1D",
     "PT٥M", "P40000D"],
)  # fmt: skip
def test_what_is_no_certain_duration_is_refused(text):
    with pytest.raises(ValueError):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("name", "legal"), [("a.b_c-1", True), ("", False), ("..", False), ("ü", False), ("a" * 250, False)]
)
def test_topic_names(name, legal):
    assert is_topic(name) is legal
