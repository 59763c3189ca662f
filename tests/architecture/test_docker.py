"""The image and the compose file agree with the project, with each other, and with the client where there is one."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.integration.kafka_broker import KAFKA_VERSION
from tpf_streams.cli.main import app

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker/compose.yaml"
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
WORKERS = ("worker-1", "worker-2")
SECRET = "PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return found


def instructions(name: str) -> list[str]:
    """The arguments of an instruction, wherever it stands in the Dockerfile."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE)
    return [line.partition(" ")[2].strip() for line in text.splitlines() if line.startswith(f"{name} ")]


def test_the_services_are_kafka_two_workers_and_the_provider(compose):
    assert set(compose["services"]) == {"kafka", *WORKERS, "provider"}
    images = {service["image"] for service in compose["services"].values()}
    assert images == {"tpf-streams", f"apache/kafka:{KAFKA_VERSION}"}
    assert set(instructions("FROM")) == {"python:3.11-slim AS build", "python:3.11-slim"}


def test_workers_share_files_and_no_state(compose):
    volumes = [dict(text.split(":") for text in compose["services"][name]["volumes"]) for name in WORKERS]
    shared = set(volumes[0]) & set(volumes[1])
    assert (shared, volumes[0]["csv"]) == ({"csv", "out"}, "/app/topologies/csv_payments/csv")
    assert {name for each in volumes for name in each} | {"kafka"} == set(compose["volumes"])


def test_no_service_begins_before_kafka_can_be_reached(compose):
    assert compose["services"]["kafka"]["healthcheck"]["test"][0] == "CMD"
    for name in (*WORKERS, "provider"):
        assert compose["services"][name]["depends_on"] == {"kafka": {"condition": "service_healthy"}}
        assert f"${{{SECRET}:?" in compose["services"][name]["environment"][SECRET]


def test_the_worker_has_no_privileges_and_says_how_it_is():
    assert instructions("USER") == ["tpf"]
    assert DOCKERFILE.index("USER tpf") < DOCKERFILE.index("\nCMD [")
    assert len(instructions("HEALTHCHECK")) == 1
    assert instructions("STOPSIGNAL") == ["SIGTERM"]


def test_what_is_copied_exists_and_reaches_the_build():
    copied = [word for line in instructions("COPY") if "--from" not in line for word in line.split()[:-1]]
    kept = [line[1:] for line in (ROOT / "docker/Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"]
    assert sorted(copied) == sorted(kept)
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_provider_is_a_call_that_exists(compose):
    command, name, *words = compose["services"]["provider"]["command"]
    assert (command, name) == ("tpf-streams", "provider")
    known = CliRunner().invoke(app, ["provider", "--help"], terminal_width=200).stdout
    assert [word for word in words if word.startswith("--") and word not in known] == []


def test_the_client_understands_it_where_there_is_one():
    """Without the compose plugin there is nobody to ask; what stands above is checked all the same."""
    try:
        asked = subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=30, check=False)
    except FileNotFoundError:
        return
    if asked.returncode == 0:
        words = ["docker", "compose", "--file", str(COMPOSE), "config", "--quiet"]
        done = subprocess.run(
            words, env={**os.environ, SECRET: "x"}, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
