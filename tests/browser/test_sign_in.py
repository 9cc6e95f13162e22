"""Coming in with a browser, and the API's own page."""

from __future__ import annotations

from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from bench.processes import Server
from tests.browser.conftest import Complaints
from zoea.auth import create_sign_in_link


def test_the_one_time_link_leads_to_the_fleet(
    page: Page, server: Server, complaints: Complaints
) -> None:
    page.context.clear_cookies()
    complaints.allowed += ("410",)
    link = server.origin + create_sign_in_link()
    page.goto(link)
    expect(page).to_have_url(f"{server.origin}/")
    page.context.clear_cookies()
    page.goto(link)
    expect(page.get_by_role("alert")).to_contain_text("used already")
    expect(page.get_by_label("Name")).to_be_visible()


def test_a_name_and_a_password_lead_where_one_was_going(
    page: Page, server: Server, complaints: Complaints
) -> None:
    page.context.clear_cookies()
    complaints.allowed += ("422",)
    User.objects.create_superuser("grace", password="correct horse")
    page.goto(f"{server.origin}/events/")
    page.get_by_label("Name").fill("grace")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{server.origin}/events/")


def test_the_api_page_works_under_the_content_policy(
    page: Page, server: Server
) -> None:
    page.goto(f"{server.origin}/api/v1/docs")
    expect(page.get_by_text("/api/v1/fleet").first).to_be_visible()
    page.get_by_text("/api/v1/fleet").first.click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    expect(page.get_by_text('"redundant_get_rate"').first).to_be_visible()
