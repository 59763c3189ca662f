"""What a simulated provider is told: the text of the option, its bounds, and where the answer is found."""

from __future__ import annotations

import pytest

from topologies.csv_payments import provider as payments
from tpf_streams.testing.provider_options import ProviderOptions, load_answer, parse_provider_spec


def test_a_spec_is_read():
    assert parse_provider_spec("reject=0.08,delay-ms=5, duplicates=0.02") == ProviderOptions(
        reject=0.08, delay_ms=5, duplicates=0.02
    )
    assert parse_provider_spec("timeout=.5,permits-per-second=250,key=none,seed=7,burst=9") == ProviderOptions(
        timeout=0.5, permits_per_second=250, key="none", seed=7, burst=9
    )
    assert parse_provider_spec(" ") == ProviderOptions()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "rejects=0.1",
            "'rejects=0.1': name=value is wanted, with one of reject, timeout, delay-ms, permits-per-second",
        ),
        ("reject", "'reject': name=value is wanted"),
        ("reject=lots", "reject=lots: a number is wanted"),
        ("reject=nan", "reject=nan: a probability from 0 to 1 is wanted"),
        ("reject=8", "reject=8.0: a probability from 0 to 1 is wanted"),
        ("delay-ms=1.5", "delay-ms=1.5: a whole number is wanted"),
        ("delay-ms=-1", "delay-ms=-1: milliseconds from 0 are wanted"),
        ("permits-per-second=0", "permits-per-second=0.0: a number above 0 is wanted"),
        ("key=csvId", "key=csvId: allowed are correlation, none, constant"),
        ("burst=0", "burst=0: 1 to 10000 is wanted"),
        ("seed=1,seed=2", "seed is given twice"),
    ],
)
def test_a_bad_spec_says_what_is_wanted(spec, message):
    with pytest.raises(ValueError) as error:
        parse_provider_spec(spec)
    assert str(error.value).startswith(message)


def test_the_answer_is_found_beside_the_steps():
    assert load_answer("topologies.csv_payments.steps") == (payments.answer, "csv-payments-mock-provider")


def test_a_pipeline_without_a_provider_is_told_so():
    with pytest.raises(ValueError, match=r"no module topologies\.nowhere\.provider"):
        load_answer("topologies.nowhere.steps")
    with pytest.raises(ValueError, match=r"tpf_streams\.testing\.provider has no function answer"):
        load_answer("tpf_streams.testing.clock")
