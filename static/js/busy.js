/* A form whose answer takes a while says so, and is sent only once: where it was sent
   by a button with data-slow. */
"use strict";
(function () {
  function show(form, busy) {
    form.querySelectorAll("[data-busy]").forEach(function (words) {
      words.hidden = !busy;
    });
    form.setAttribute("aria-busy", String(busy));
  }

  document.addEventListener("submit", function (event) {
    var form = event.target;
    var button = event.submitter;
    if (!form.querySelector("[data-busy]")) return;
    if (form.getAttribute("aria-busy") === "true") return event.preventDefault();
    if (button && "slow" in button.dataset) show(form, true);
  });
  // Who comes back finds it as it was left: nothing is under way then.
  window.addEventListener("pageshow", function () {
    document.querySelectorAll("form[aria-busy]").forEach(function (form) {
      show(form, false);
    });
  });
})();
