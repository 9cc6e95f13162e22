"""The page of a Mysis's notes, and what writes them there and on its own page."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_POST

from agents.actions import ActionError, notes
from agents.actions.base import CHANGED, name_operator
from agents.forms import NoteForm, add_action_error
from agents.models import Mysis
from agents.views.access import (
    PageRequest,
    find_mysis,
    notify_success,
    operator_required,
)
from memory.models import Note
from memory.notes import select_notes

# Old versions on a page.
PAGE = 50


@require_http_methods(["GET", "HEAD"])
def notes_page(request: PageRequest, key: str) -> HttpResponse:
    """All notes with their versions; ``?name=`` opens one in the form.

    With htmx the form alone.
    """
    mysis = find_mysis(key)
    wanted = request.GET.get("name", "")
    current = {note.name: note for note in select_notes(mysis.pk)}
    note = current.get(wanted)
    text, version = (note.text, note.version) if note else ("", 0)
    form = NoteForm(initial={"name": wanted, "text": text, "version": version})
    return _render(request, mysis, form, wanted)


@require_POST
@operator_required
def save_note(request: PageRequest, key: str) -> HttpResponse:
    """Make or replace a note; errors stand at their fields.

    Where somebody else wrote it in between, that text stands beside what was typed.
    """
    mysis = find_mysis(key)
    form, stands = NoteForm(request.POST), None
    if form.is_valid():
        given = form.cleaned_data
        current = select_notes(mysis.pk).filter(name=given["name"].strip()).first()
        if current is None:
            # Of another name, or forgotten: nothing is written over.
            given["version"] = None
        try:
            note = notes.save_note(mysis=mysis, **given, by=name_operator(request))
        except ActionError as error:
            if error.code == CHANGED:
                stands = current
                form = _ask_again(request, stands)
            else:
                add_action_error(form, error)
        else:
            said = f"Note {note.name} is kept, version {note.version}."
            if not request.htmx:
                return notify_success(request, said)
            return _render(request, mysis, NoteForm(), "", said)
    return _render(request, mysis, form, "", stands=stands)


def _ask_again(request: PageRequest, stands: Note | None) -> NoteForm:
    """The form with what was typed, which replaces what stands now when sent again."""
    typed = request.POST.copy()
    typed["version"] = str(stands.version if stands else 0)
    form = NoteForm(typed)
    form.add_error(
        "text",
        "Somebody else wrote this note: below is what it says now. Keep note puts yours "
        "in its place.",
    )
    return form


@require_POST
@operator_required
def forget_note(request: PageRequest, key: str) -> HttpResponse:
    """Take a note out of use."""
    note = notes.forget_note(
        mysis=find_mysis(key),
        name=request.POST.get("name", ""),
        by=name_operator(request),
    )
    return notify_success(request, f"Note {note.name} is forgotten.")


def _render(
    request: PageRequest,
    mysis: Mysis,
    form: NoteForm,
    wanted: str,
    said: str = "",
    stands: Note | None = None,
) -> HttpResponse:
    # With an answer of 422 htmx would leave the form as it is.
    status = 422 if form.errors and not request.htmx else 200
    values = {"mysis": mysis, "form": form, "said": said, "tab": "notes"}
    values["stands"] = stands
    if request.htmx:
        # In the panel of the notes, or in the dialog of the page's head.
        values |= {"target": request.htmx.target or "note-form"}
        in_dialog = values["target"] == "editor"
        if in_dialog:
            values["notes"] = select_notes(mysis.pk)
        template = "agents/notes/dialog.html" if in_dialog else "agents/notes/form.html"
        return render(request, template, values, status=status)
    old = Note.objects.filter(mysis=mysis, ended_at__isnull=False).defer("vector")
    if wanted:
        old = old.filter(name=wanted)
    versions = list(old.order_by("-ended_at", "-pk")[: PAGE + 1])
    values |= {
        "notes": select_notes(mysis.pk),
        "versions": versions[:PAGE],
        "more": len(versions) > PAGE,
        "wanted": wanted,
    }
    return render(request, "agents/notes.html", values, status=status)
