/* Hands on keys: the palette (Ctrl+K) and single keys, which can be switched off. */
"use strict";
(function () {
  var palette = document.getElementById("palette");
  if (!palette) return;
  var input = document.getElementById("palette-q");
  var help = document.getElementById("keys");

  // -- the palette ---------------------------------------------------------
  // Enter may come before the answer to what was typed last: then it waits for it.
  var isWaiting = false;
  var shown = null;

  function list() {
    return document.getElementById("palette-list");
  }

  function options() {
    return Array.from(list().querySelectorAll("[role=option]"));
  }

  function active() {
    return list().querySelector("[aria-selected=true]");
  }

  function setActive(option) {
    options().forEach(function (one) {
      one.setAttribute("aria-selected", String(one === option));
    });
    if (!option) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    var all = options();
    var next = all.indexOf(active()) + by;
    setActive(all[(next + all.length) % all.length]);
  }

  function run() {
    isWaiting = list().dataset.q !== input.value;
    if (!isWaiting && active()) active().click();
  }

  function openPalette() {
    if (document.querySelector("dialog[open]")) return;
    input.value = "";
    isWaiting = false;
    palette.showModal();
    htmx.trigger(input, "ask");
  }

  function openHelp() {
    // By the dialog itself: a request of the page that is under way would hold it up.
    var by = { source: help, target: help };
    htmx.ajax("GET", help.dataset.source, by).then(function () {
      // Nothing came: the notice says why.
      if (!document.getElementById("keys-on")) return;
      document.getElementById("keys-on").checked = isOn();
      help.showModal();
    });
  }

  input.addEventListener("keydown", function (event) {
    if (event.key === "ArrowDown") step(1);
    else if (event.key === "ArrowUp") step(-1);
    else if (event.key === "Enter") run();
    else return;
    event.preventDefault();
  });
  document.addEventListener("htmx:afterSettle", function () {
    if (!palette.open || list() === shown) return;
    shown = list();
    setActive(options()[0]);
    if (isWaiting) run();
  });
  palette.addEventListener("click", function (event) {
    var option = event.target.closest("[role=option]");
    if (event.target !== palette && !option) return;
    palette.close();
    if (option && "keys" in option.dataset) openHelp();
  });
  // Escape closes the dialog alone, not what lies open below it.
  [palette, help].forEach(function (dialog) {
    dialog.addEventListener("keydown", function (event) {
      if (event.key === "Escape") event.stopPropagation();
    });
  });

  // -- single keys -----------------------------------------------------------
  function isOn() {
    try {
      return localStorage.getItem("keys") !== "off";
    } catch (error) {
      return true;
    }
  }

  help.addEventListener("change", function (event) {
    try {
      localStorage.setItem("keys", event.target.checked ? "on" : "off");
    } catch (error) {
      /* Not remembered then. */
    }
  });

  function rows() {
    return Array.from(document.querySelectorAll(".rows > .row, .hits > .hit"));
  }

  function row() {
    return document.activeElement.closest(".row, .hit");
  }

  function move(by) {
    var all = rows();
    var here = all.indexOf(row());
    var next = here < 0 ? (by > 0 ? 0 : all.length - 1) : here + by;
    var link = all[next] && all[next].querySelector(".name, a");
    if (link) link.focus();
  }

  function click(node) {
    if (node) node.click();
  }

  function bulk(button) {
    var open = document.querySelector("#bulk.bulk-open");
    return open && open.querySelector(button);
  }

  // What runs or idles is on; so are several of which one is.
  function toggle() {
    var on = ".row:is(.row-running, .row-idle) .pick :checked";
    var many = bulk(document.querySelector(on) ? "[value=stop]" : "[value=start]");
    var place = row() || document.getElementById("mysis-acts");
    click(many || (place && place.querySelector(".act-stop, .act-start, .stop, .start")));
  }

  function compose() {
    var one = row();
    var button = bulk("[data-compose-to]") || (one && one.querySelector(".act-message"));
    var box = document.getElementById("id_text");
    if (button) button.click();
    else if (box) box.focus();
  }

  var KEYS = {
    "/": function () {
      var filter = document.getElementById("id_q");
      if (!filter) return openPalette();
      filter.focus();
      filter.select();
    },
    j: function () {
      move(1);
    },
    k: function () {
      move(-1);
    },
    "?": openHelp,
  };
  var COMMANDS = {
    x: function () {
      click(row() && row().querySelector(".pick input"));
    },
    s: toggle,
    m: compose,
  };
  var TYPED_INTO =
    "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";

  document.addEventListener("keydown", function (event) {
    if (event.defaultPrevented || event.isComposing || event.altKey) return;
    if (event.ctrlKey || event.metaKey) {
      if (event.key.toLowerCase() !== "k" || event.shiftKey) return;
      event.preventDefault();
      return openPalette();
    }
    var field = event.target.closest(TYPED_INTO);
    // The field of a dialog that was closed this moment may still have the focus.
    if (field && !field.closest("dialog:not([open])")) return;
    if (document.querySelector("dialog[open]")) return;
    var viewer = document.body.dataset.role === "viewer";
    var key = KEYS[event.key] || (!viewer && COMMANDS[event.key]);
    if (!key || !isOn()) return;
    event.preventDefault();
    key();
  });

  var button = document.getElementById("palette-open");
  button.hidden = false;
  button.addEventListener("click", openPalette);
})();
