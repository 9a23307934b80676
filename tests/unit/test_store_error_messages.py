"""Sentences for answers of an object store, and of what answers in its place."""

import pytest

from aqueduct.store.error_messages import Trouble, explain
from aqueduct.store.url import Location

STORE = Location("s3", "store", "backup")
PAGE = "<!DOCTYPE html><html><head><title>Blocked</title></head></html>"


def answer(status: int, body: str = "", action: str = "read") -> Trouble:
    return explain(f"Server returned non-2xx status code: {status} Some Reason: {body}", STORE, action)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 407])
def test_web_page_reveals_wrong_store_endpoint(status: int) -> None:
    found = answer(status, PAGE)
    assert found.id == "store-endpoint-wrong"
    assert f"it answers {status} with a web page" in found.what
    assert not found.passing


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_web_page_of_a_load_balancer_passes(status: int) -> None:
    assert answer(status, PAGE).passing


def test_codes_count_more_than_the_status() -> None:
    denied = answer(403, "<Error><Code>AccessDenied</Code></Error>")
    assert "denies access: read (AccessDenied)" in denied.what
    assert denied.settings
    assert "denies access: read (403)" in answer(403).what
    assert answer(503, "<Error><Code>SlowDown</Code></Error>").passing
    assert "AWS_REGION" in answer(301, "<Error><Code>PermanentRedirect</Code></Error>").remedy


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed_for_ever(status: int) -> None:
    found = answer(status)
    assert found.id == "store-endpoint-wrong"
    assert not found.passing
