"""A new key in front of the old one, `rotate_key`, and the old key dropped."""

from __future__ import annotations

from io import StringIO

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from agents import stored_secrets
from agents.encryption import SealedProperty, read_sealed_values, unseal
from agents.models import Account, AlertTarget
from agents.stored_secrets import Tally, find_unreadable, reseal_all
from memory.models import AuditEntry
from tests.factories import make_account, make_provider
from tests.programs import ROOT, Program
from zoea.auth import create_sign_in_link
from zoea.commandline import DatabaseError

pytestmark = pytest.mark.django_db
OLD, NEW, OTHER = "the old key", "the new key", "a key of somebody else"
PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _old_key(settings: Settings) -> None:
    use(settings, OLD)


def use(settings: Settings, *keys: str) -> None:
    """Go on as after a start with these keys."""
    settings.ZOEA_KEYS = list(keys)
    settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS = keys


def rotate() -> str:
    out = StringIO()
    call_command("rotate_key", stdout=out)
    return out.getvalue()


def prepare() -> list[str]:
    out = StringIO()
    call_command("prepare", stdout=out)
    return out.getvalue().splitlines()


def store_one_of_each() -> None:
    """A secret in every column that there is."""
    account = make_account(username="Ada", password="of Ada 1")
    account.game_session, account.registration_answer = "session 2", "answer 3"
    account.save()
    make_provider(name="mine", kind="openai", key="of the provider 4")
    target = AlertTarget(name="chat", kind="webhook")
    target.url, target.secret = (
        "https://chat.example.org/hooks/T0Zx81kdj27dhs61kq",
        "of the chat 5",
    )
    target.save()


def list_sealed() -> dict[str, str]:
    """The columns of all secrets in clear, by model and name."""
    return {
        f"{model._meta.model_name}.{name}": one.column
        for model in apps.get_models()
        for name, one in vars(model).items()
        if isinstance(one, SealedProperty)
    }


def read_all() -> set[str]:
    """All secrets that are stored, in clear."""
    found = set()
    for place in list_sealed():
        model, _, name = place.partition(".")
        rows = apps.get_model("agents", model)._base_manager.all()
        found |= {getattr(row, name) for row in rows}
    return found - {""}


def test_every_secret_is_known_to_the_masks_and_to_rotation() -> None:
    """Also one that a model gains later: nobody has to think of a list."""
    store_one_of_each()
    sealed = list_sealed()
    assert len(read_all()) == len(sealed), "store one in each column"
    columns = {
        (model._meta.model_name, field.name)
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if field.name.startswith(stored_secrets.PREFIX)
    }
    asked = {(place.partition(".")[0], column) for place, column in sealed.items()}
    assert asked == columns
    known = " ".join(read_sealed_values())
    assert [one for one in read_all() if one.rpartition("/")[2] not in known] == []


def test_secrets_are_read_rotated_and_read_without_the_old_key(
    settings: Settings,
) -> None:
    store_one_of_each()
    before = read_all()
    columns = sum(len(names) for _, names in stored_secrets.list_sealed_columns())
    assert len(before) == columns, "store one in each column"
    use(settings, NEW, OLD)
    assert read_all() == before
    late = make_account(username="Late", password="of Late")
    assert rotate() == (
        f"Secrets sealed under the newest key: {columns}; under it already: 1.\n"
    )
    late.delete()
    use(settings, NEW)
    assert read_all() == before
    entry = AuditEntry.objects.get(action="key.rotate")
    assert entry.after == {"resealed": columns, "unreadable": 0}
    assert "sealed under the newest key: 0;" in rotate()


def test_an_end_between_two_batches_leaves_all_readable(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_secrets, "BATCH", 2)
    for number in range(5):
        make_account(username=f"Ada {number}", password=f"word {number}")
    use(settings, NEW, OLD)
    batches = reseal_all(Tally())
    assert next(batches) == 2
    batches.close()
    words = {account.password for account in Account.objects.all()}
    assert words == {f"word {number}" for number in range(5)}
    use(settings, NEW)
    assert len(find_unreadable()) == 3
    use(settings, NEW, OLD)
    assert "newest key: 3; under it already: 2." in rotate()


def test_what_no_key_reads_stays_as_it_is_and_is_named(
    settings: Settings,
) -> None:
    lost = make_account(username="Ada", password="of Ada 1")
    use(settings, NEW)
    make_account(username="Bob", password="of Bob")
    with pytest.raises(CommandError) as refused:
        rotate()
    assert f"password of account {lost.pk}" in str(refused.value)
    assert "\n" not in str(refused.value)
    sealed = Account.objects.get(pk=lost.pk).sealed_password
    assert sealed == lost.sealed_password
    use(settings, NEW, OLD)
    assert unseal(sealed) == "of Ada 1"


def test_a_start_with_a_wrong_key_is_refused_in_one_line_and_loses_nothing(
    settings: Settings,
) -> None:
    store_one_of_each()
    before = read_all()
    assert not any("cannot read" in line for line in prepare())
    use(settings, OTHER)
    with pytest.raises(DatabaseError, match="ZOEA_SECRET_KEY") as refused:
        prepare()
    assert "\n" not in str(refused.value)
    use(settings, OLD)
    assert read_all() == before


def test_a_start_without_one_of_several_keys_says_what_cannot_be_read(
    settings: Settings,
) -> None:
    make_account(username="Ada", password="of Ada")
    use(settings, NEW)
    make_account(username="Bob", password="of Bob")
    [line] = [line for line in prepare() if "cannot read" in line]
    assert "the present key cannot read: 1" in line


def test_people_and_programs_stay_signed_in(settings: Settings) -> None:
    """Of people those who come by while both keys are there."""
    User.objects.create_superuser("grace", password=PASSWORD)
    regular, away = Client(), Client()
    for client in (regular, away):
        assert client.login(username="grace", password=PASSWORD)
    program = Program("viewer")
    link = create_sign_in_link()
    use(settings, NEW, OLD)
    assert regular.get("/").status_code == 200
    use(settings, NEW)
    assert regular.get("/").status_code == 200
    assert away.get("/").status_code == 302
    assert away.login(username="grace", password=PASSWORD)
    assert away.get("/").status_code == 200
    assert program.get("/myses").status_code == 200
    visitor = Client(REMOTE_ADDR="127.0.0.1", HTTP_HOST="localhost")
    visitor.get(link)
    assert visitor.get(f"{ROOT}/myses").status_code == 200
