"""The broker of the end-to-end tests is found as the integration tests find theirs."""

from tests.integration.conftest import bootstrap_servers, pytest_collection_finish

__all__ = ["bootstrap_servers", "pytest_collection_finish"]
