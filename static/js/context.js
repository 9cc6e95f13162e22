/* The next context is drawn anew by itself once it is outdated, unless its reader has
   something of it in hand: a selection, a part opened or closed, the focus, a place far
   down in a part, a form half filled. */
"use strict";
(function () {
  var drawn = Date.now();
  var asked = false;

  function view() {
    return document.getElementById("context-view");
  }

  // Some parts are open from the start; only what the reader opened or closed holds the page.
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

  function isScrolled(part) {
    return part.scrollTop > 0;
  }

  function isHeld() {
    var selection = document.getSelection();
    if (selection && !selection.isCollapsed) return true;
    if (view().contains(document.activeElement)) return true;
    // What is tried stands in the address: drawn anew, the last hour would begin again.
    if (document.getElementById("hour")) return true;
    if (view().querySelector("details[open]:not([data-opened]), details[data-opened]:not([open])")) return true;
    if (Array.from(view().querySelectorAll("*")).some(isScrolled)) return true;
    return Array.from(view().querySelectorAll(".what-if :is(input[name], select)")).some(isFilled);
  }

  function refresh() {
    var said = document.getElementById("context-outdated");
    // A Mysis that is gone has no context any more, and nothing to say of it.
    if (!view() || !said || !said.textContent.trim()) return;
    var rest = parseInt(view().dataset.rest, 10);
    if (asked || document.hidden || Date.now() - drawn < rest || isHeld()) return;
    asked = true;
    var here = location.pathname + location.search;
    htmx.ajax("GET", here, { target: "#context-view", select: "#context-view", swap: "outerHTML" }).then(done, done);
  }

  // An answer without the view, as the page to sign in on, leaves what is read as it is.
  function keepWithout(event) {
    var part = event.detail.target;
    if (!part || part.id !== "context-view") return;
    if (!/id="context-view"/.test(event.detail.serverResponse)) event.detail.shouldSwap = false;
  }

  function done() {
    asked = false;
    drawn = Date.now();
    if (view()) noteOpened();
  }

  document.addEventListener("DOMContentLoaded", function () {
    noteOpened();
    document.body.addEventListener("htmx:beforeSwap", keepWithout);
    setInterval(refresh, 500);
  });
})();
