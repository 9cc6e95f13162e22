/* The next context is drawn anew by itself once it is outdated, unless its reader has
   something of it in hand: a selection, an opened part, the focus, a form half filled. */
"use strict";
(function () {
  var drawn = Date.now();
  var asked = false;

  function view() {
    return document.getElementById("context-view");
  }

  // Some parts are open from the start; only what the reader opened holds the page.
  function noteOpened() {
    view()
      .querySelectorAll("details[open]")
      .forEach(function (part) {
        part.dataset.opened = "";
      });
  }

  function isFilled(field) {
    if (field.tagName !== "SELECT") return field.value !== field.defaultValue;
    var chosen = field.options[field.selectedIndex];
    var marked = field.querySelector("option[selected]") || field.options[0];
    return chosen !== marked;
  }

  function isHeld() {
    var selection = document.getSelection();
    if (selection && !selection.isCollapsed) return true;
    if (view().contains(document.activeElement)) return true;
    if (view().querySelector("details[open]:not([data-opened])")) return true;
    return Array.from(view().querySelectorAll(".what-if :is(input, select)")).some(isFilled);
  }

  function refresh() {
    var said = document.getElementById("context-outdated");
    // A Mysis that is gone has no context any more.
    if (!said || !said.textContent.trim() || !document.getElementById("context-news").textContent.trim()) return;
    var rest = parseInt(view().dataset.rest, 10);
    if (asked || document.hidden || Date.now() - drawn < rest || isHeld()) return;
    asked = true;
    var here = location.pathname + location.search;
    htmx.ajax("GET", here, { target: "#context-view", select: "#context-view", swap: "outerHTML" }).then(done, done);
  }

  function done() {
    asked = false;
    drawn = Date.now();
    noteOpened();
  }

  document.addEventListener("DOMContentLoaded", function () {
    noteOpened();
    setInterval(refresh, 500);
  });
})();
