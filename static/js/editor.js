/* The dialog in which the head of a Mysis is edited. Its forms come by htmx. */
"use strict";
(function () {
  // The link that opened it; the head may have been drawn anew since.
  var opener = "";

  function dialog() {
    return document.getElementById("editor-dialog");
  }

  function focusFirst() {
    var wrong = dialog().querySelector(".field-bad :is(input, select, textarea)");
    var first = wrong || dialog().querySelector("[autofocus]");
    if (first) first.focus();
  }

  document.addEventListener("htmx:beforeRequest", function (event) {
    var target = event.detail.target;
    if (target && target.id === "editor" && !dialog().open) opener = event.detail.elt.id;
  });
  document.addEventListener("htmx:afterSwap", function (event) {
    if (event.target.id !== "editor") return;
    if (!dialog().open) dialog().showModal();
    focusFirst();
  });
  // Saved: the notice is said on the page.
  document.addEventListener("edited", function () {
    dialog().close();
  });
  document.addEventListener("click", function (event) {
    if (event.target.closest("[data-close-editor]")) dialog().close();
  });
  document.addEventListener("DOMContentLoaded", function () {
    // Escape closes the dialog alone, not what lies open below it.
    dialog().addEventListener("keydown", function (event) {
      if (event.key === "Escape") event.stopPropagation();
    });
    dialog().addEventListener("close", function () {
      document.getElementById("editor").replaceChildren();
      var link = document.getElementById(opener);
      if (link) link.focus();
    });
  });
})();
