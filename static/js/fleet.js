/* The fleet page: ticked rows stay ticked. */
"use strict";
(function () {
  // -- selection ---------------------------------------------------------
  // Rows are drawn anew when Myses come and go; what was ticked is kept here.
  var picked = new Set();

  function boxes() {
    return Array.from(document.querySelectorAll(".rows .pick input"));
  }

  function all() {
    return document.getElementById("bulk-all");
  }

  // How many match the view, where more do than are shown; 0 otherwise.
  function matching() {
    var more = document.getElementById("fleet-rows").querySelector(".row-more");
    return more ? parseInt(more.dataset.matching, 10) : 0;
  }

  function wantsAll() {
    return all().checked && matching() > 0;
  }

  // Whom an order to the selected reaches, in words.
  function selected() {
    return wantsAll() ? "all " + matching() + " that match" : "the " + picked.size + " selected";
  }

  function say() {
    var count = document.getElementById("bulk-count");
    if (!count) return;
    var shown = boxes();
    var every = document.getElementById("pick-all");
    every.checked = shown.length > 0 && picked.size === shown.length;
    every.indeterminate = picked.size > 0 && !every.checked;
    document.querySelector(".bulk-all").hidden = !matching();
    var words = wantsAll() ? "All " + matching() + " that match" : picked.size + " selected";
    if (count.textContent !== words) count.textContent = words;
    document.getElementById("bulk").classList.toggle("bulk-open", picked.size > 0);
    offerComparison();
    offerSelected();
  }

  // Two can stand side by side.
  function offerComparison() {
    var link = document.getElementById("bulk-compare");
    var two = Array.from(picked);
    link.hidden = two.length !== 2 || wantsAll();
    link.href = link.href.split("?")[0] + "?a=" + two[0] + "&b=" + two[1];
  }

  function offerSelected() {
    var option = document.getElementById("to-selected");
    if (!option) return;
    option.disabled = option.hidden = picked.size === 0;
    var words = selected();
    option.textContent = words.charAt(0).toUpperCase() + words.slice(1);
    if (option.selected && picked.size === 0) option.parentElement.value = "";
    window.zoea.nameTarget();
  }

  function restore() {
    var shown = boxes();
    var here = new Set();
    shown.forEach(function (box) {
      box.checked = picked.has(box.value);
      if (box.checked) here.add(box.value);
    });
    picked = here;
    say();
  }

  document.addEventListener("change", function (event) {
    var box = event.target;
    if (box.id === "pick-all") {
      boxes().forEach(function (one) {
        one.checked = box.checked;
      });
    }
    if (box.id === "bulk-all") return say();
    if (!box.closest || !box.closest(".pick")) return;
    picked = new Set();
    boxes().forEach(function (one) {
      if (one.checked) picked.add(one.value);
    });
    if (picked.size === 0) all().checked = false;
    say();
  });
  document.addEventListener("reset", function (event) {
    if (event.target.id !== "bulk") return;
    picked = new Set();
    setTimeout(restore);
  });
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Escape" || picked.size === 0) return;
    document.getElementById("bulk").reset();
  });
  document.addEventListener("htmx:configRequest", function (event) {
    if (event.target.id !== "composer") return;
    if (document.getElementById("id_to").value !== "selected") return;
    if (wantsAll()) {
      var bulk = document.getElementById("bulk");
      ["all", "state", "q", "group", "tag"].forEach(function (name) {
        event.detail.formData.set(name, bulk.elements[name].value);
      });
    }
    picked.forEach(function (id) {
      event.detail.formData.append("mysis", id);
    });
  });
  // Stopping many ends what they are in the middle of: asked once more.
  document.addEventListener("htmx:confirm", function (event) {
    if (event.target.id !== "bulk") return;
    var submitted = event.detail.triggeringEvent;
    var button = submitted && submitted.submitter;
    if (!button || button.value !== "stop") return;
    event.preventDefault();
    if (window.confirm("Stop " + selected() + "?")) event.detail.issueRequest(true);
  });
  document.addEventListener("htmx:afterSettle", restore);
  document.addEventListener("htmx:wsAfterMessage", restore);

  // -- groups --------------------------------------------------------------
  // The group of a row filters by it, and leaves the other filters as they are.
  document.addEventListener("click", function (event) {
    var link = event.target.closest("[data-group]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    var found = Array.from(document.querySelectorAll('.members [name="group"]')).find(function (one) {
      return one.tagName === "SELECT" || one.value === link.dataset.group;
    });
    if (!found) return;
    event.preventDefault();
    if (found.tagName === "SELECT") found.value = link.dataset.group;
    else found.checked = true;
    found.dispatchEvent(new Event("change", { bubbles: true }));
  });
  // Enter in the name of a group would be the first button of the bar.
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Enter" || event.target.id !== "bulk-group") return;
    event.preventDefault();
    event.target.form.querySelector('[name="act"][value="group"]').click();
  });

  // -- menus: Escape and a click elsewhere close them -------------------------
  function closeMenus(except) {
    document.querySelectorAll("details.menu[open]").forEach(function (menu) {
      if (menu !== except) menu.open = false;
    });
  }
  document.addEventListener("click", function (event) {
    // What a menu's answer took out of the page was not a click elsewhere.
    if (!document.body.contains(event.target)) return;
    closeMenus(event.target.closest("details.menu"));
  });
  document.addEventListener("keydown", function (event) {
    var menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (!menu) return;
    closeMenus(null);
    menu.querySelector("summary").focus();
  });

  // -- density: remembered as the theme is ---------------------------------------
  function startDensity() {
    var button = document.getElementById("density");
    var root = document.documentElement;
    if (!button) return;
    function show() {
      button.setAttribute("aria-pressed", String(root.dataset.density === "compact"));
    }
    button.hidden = false;
    show();
    button.addEventListener("click", function () {
      if (root.dataset.density) delete root.dataset.density;
      else root.dataset.density = "compact";
      try {
        localStorage.setItem("density", root.dataset.density || "comfortable");
      } catch (error) {
        /* Not remembered then. */
      }
      show();
    });
  }

  // -- a visit lasts while the page is looked at ------------------------------------
  var LOOK = 5 * 60 * 1000;
  var looked = Date.now();
  function look() {
    if (document.visibilityState !== "visible" || Date.now() - looked < LOOK) return;
    looked = Date.now();
    htmx.trigger(".last-visit", "look");
  }
  document.addEventListener("visibilitychange", look);
  setInterval(look, LOOK / 5);

  document.addEventListener("DOMContentLoaded", function () {
    if (document.getElementById("bulk")) restore();
    startDensity();
  });
})();
