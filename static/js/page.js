/* What every page needs: ages that tick, the theme, the composer. */
"use strict";
(function () {
  // -- ages ------------------------------------------------------------
  // The server's clock counts: a browser's may be wrong by minutes.
  var skew = 0;

  function now() {
    return Date.now() + skew;
  }

  function setClock(iso) {
    var server = Date.parse(iso);
    if (!isNaN(server)) {
      skew = server - Date.now();
    }
  }

  function words(seconds) {
    var s = Math.abs(Math.round(seconds));
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min";
    if (s < 86400) {
      return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
    }
    return Math.floor(s / 86400) + " d";
  }

  function write(node, text) {
    // A text that stays the same is left alone: selections survive.
    if (node.textContent !== text) node.textContent = text;
  }

  var exact = new Intl.DateTimeFormat(undefined, {
    dateStyle: "medium",
    timeStyle: "medium",
  });
  var clock = new Intl.DateTimeFormat(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
  });

  function drawAge(node) {
    var at = Date.parse(node.getAttribute("datetime"));
    if (isNaN(at)) return;
    if (!node.dataset.exact) {
      node.dataset.exact = "yes";
      node.title = exact.format(new Date(at));
    }
    var seconds = (now() - at) / 1000;
    var age = words(seconds);
    // In a badge the age alone, and no more of it than fits.
    if ("brief" in node.dataset) return write(node, age.split(" ").slice(0, 2).join(" "));
    write(node, seconds < -1.5 ? "in " + age : seconds < 1.5 ? "now" : age + " ago");
  }

  function drawClock(node) {
    var at = new Date(node.getAttribute("datetime"));
    if (!isNaN(at)) write(node, clock.format(at));
  }

  // Ages in ticks go on by themselves, at the pace the server told.
  function drawTicks(node) {
    var pace = parseFloat(node.dataset.pace);
    if (!node.dataset.since) node.dataset.since = String(now());
    var passed = (now() - parseFloat(node.dataset.since)) / 1000;
    var ticks = parseInt(node.dataset.ticks, 10) + Math.floor(passed / pace);
    if (pace > 0 && !isNaN(ticks)) {
      write(node, ticks + (ticks === 1 ? " tick" : " ticks"));
    }
  }

  function draw(root) {
    root.querySelectorAll("time[data-time]").forEach(drawAge);
    root.querySelectorAll("time[data-clock]").forEach(drawClock);
    root.querySelectorAll("[data-ticks]").forEach(drawTicks);
  }

  // -- places that an address leads to ----------------------------------
  function showPlace(spot) {
    spot.scrollIntoView({ block: "center" });
    // The page stands at its top, unless the place is out of sight from there.
    var below = spot.getBoundingClientRect().bottom + window.scrollY;
    if (below < window.innerHeight - 80) window.scrollTo(0, 0);
  }

  // What was found may stand far down in a text that scrolls by itself.
  function showHit() {
    var target = document.getElementById(location.hash.slice(1));
    var hit = target && document.querySelector(".hit-walk") && target.querySelector("mark");
    if (!hit) return;
    for (var part = target.closest("details"); part; ) {
      part.open = true;
      part = part.parentElement.closest("details");
    }
    showPlace(hit);
  }

  window.zoea = {
    draw: draw,
    setClock: setClock,
    now: now,
    nameTarget: nameTarget,
    showPlace: showPlace,
  };

  // -- theme -----------------------------------------------------------
  var THEMES = ["auto", "light", "dark"];
  var SAID = { auto: "as the system", light: "light", dark: "dark" };

  function theme() {
    return document.documentElement.dataset.theme || "auto";
  }

  function showTheme(button) {
    button.setAttribute("aria-label", "Theme: " + SAID[theme()]);
    button.title = "Theme: " + SAID[theme()];
  }

  function chooseTheme(chosen) {
    if (chosen === "auto") {
      delete document.documentElement.dataset.theme;
    } else {
      document.documentElement.dataset.theme = chosen;
    }
    try {
      localStorage.setItem("theme", chosen);
    } catch (error) {
      /* Not remembered then. */
    }
  }

  function startTheme() {
    var button = document.getElementById("theme-toggle");
    if (!button) return;
    button.hidden = false;
    showTheme(button);
    button.addEventListener("click", function () {
      var next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
      chooseTheme(next);
      showTheme(button);
    });
  }

  // -- composer --------------------------------------------------------
  function drawCount(box) {
    var out = document.getElementById(box.dataset.counter || "");
    if (!out) return;
    var length = Array.from(box.value).length;
    var limit = parseInt(out.dataset.limit, 10);
    write(out, length ? length.toLocaleString() + " / " + limit.toLocaleString() : "");
  }

  function nameTarget() {
    var select = document.getElementById("id_to");
    var verb = document.querySelector("#composer [data-compose-verb]");
    var reach = document.getElementById("fleet-reach");
    if (!select || !verb) return;
    var one = select.value !== "";
    var name = one ? select.options[select.selectedIndex].text : "";
    name = name.replace(/^(The|All) /, function (word) {
      return word.toLowerCase();
    });
    write(verb, one ? "Send to " + name : "Send to the fleet");
    if (reach) reach.hidden = one;
  }

  function composeTo(id) {
    var select = document.getElementById("id_to");
    var box = document.getElementById("id_text");
    if (!select || !box) return false;
    select.value = id;
    if (select.value !== id && id.indexOf(",") > 0) {
      // Several at once are offered when they are asked for.
      select.add(new Option(id.split(",").length + " Myses", id), 1);
      select.value = id;
    }
    if (select.value !== id) return false;
    nameTarget();
    box.focus();
    document.getElementById("composer").scrollIntoView({ block: "nearest" });
    return true;
  }

  // The next order is for the fleet again, unless a group or a tag was chosen.
  function toFleet(select) {
    if (!select || select.value.indexOf(":") > 0) return;
    select.value = "";
    nameTarget();
  }

  document.addEventListener("input", function (event) {
    if (event.target.dataset && event.target.dataset.counter) drawCount(event.target);
  });
  document.addEventListener("change", function (event) {
    if (event.target.id === "id_to") nameTarget();
  });
  document.addEventListener("click", function (event) {
    var link = event.target.closest("[data-compose-to]");
    if (link && composeTo(link.dataset.composeTo)) event.preventDefault();
  });
  document.addEventListener("keydown", function (event) {
    var box = event.target;
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    if (!box.dataset || box.dataset.submitOn !== "ctrl-enter") return;
    event.preventDefault();
    box.form.requestSubmit();
  });
  // -- what is typed while an answer is on its way ------------------------
  // An answer brings a form as it was sent. What was typed since stays, and so does what
  // was typed into another form that the answer replaces.
  var TYPED = ":is(input:not([type=hidden]), select, textarea)[id]";
  var sent = new WeakMap();
  var newer = [];

  function readFields(form, target) {
    var fields = Array.from(target.querySelectorAll(TYPED));
    if (form) fields = fields.concat(Array.from(form.elements));
    return new Map(
      fields.map(function (field) {
        var isSent = field.form === form || field.defaultValue === undefined;
        return [field, isSent ? field.value : field.defaultValue];
      }),
    );
  }

  function isNewer(xhr, field) {
    var fields = sent.get(xhr);
    return fields.has(field) && fields.get(field) !== field.value;
  }

  function typeAgain(old) {
    var field = document.getElementById(old.id);
    if (!field || field === old) return;
    field.value = old.value;
    var place = old.selectionStart;
    if (typeof place === "number") field.setSelectionRange(place, old.selectionEnd);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  document.addEventListener("htmx:beforeSend", function (event) {
    var by = event.detail.elt;
    if (event.detail.requestConfig.verb !== "post") return;
    sent.set(event.detail.xhr, readFields(by.form || by.closest("form"), event.detail.target));
  });
  document.addEventListener("htmx:beforeSwap", function (event) {
    if (!sent.has(event.detail.xhr)) return;
    newer = Array.from(event.detail.target.querySelectorAll(TYPED)).filter(
      isNewer.bind(null, event.detail.xhr),
    );
  });
  document.addEventListener("htmx:afterSwap", function () {
    newer.splice(0).forEach(typeAgain);
  });
  document.addEventListener("htmx:afterRequest", function (event) {
    // A button may be outside of its form, and so may the box.
    var form = event.detail.elt.form || event.detail.elt;
    if (!form.matches || !form.matches("[data-clear-on-success]")) return;
    if (!event.detail.xhr || event.detail.xhr.status >= 400) return;
    var box = Array.prototype.find.call(form.elements, function (one) {
      return one.tagName === "TEXTAREA";
    });
    if (!isNewer(event.detail.xhr, box)) box.value = "";
    drawCount(box);
    toFleet(form.querySelector("select"));
  });
  // A server that cannot be reached must not look like a button that does nothing.
  ["htmx:sendError", "htmx:timeout"].forEach(function (name) {
    document.addEventListener(name, function () {
      tell("The server cannot be reached: nothing was done. Try again.");
    });
  });
  document.addEventListener("htmx:responseError", function (event) {
    tell("The server answered " + event.detail.xhr.status + ": nothing was done.");
  });

  // What a command changed comes by the socket; without one, the page is loaded
  // again, or the button would seem to do nothing. What was typed since is not thrown away.
  function isTyping(xhr) {
    return Array.from(sent.get(xhr).keys()).some(function (field) {
      return field.matches("input, textarea") && field.value && isNewer(xhr, field);
    });
  }

  document.addEventListener("htmx:afterRequest", function (event) {
    var mark = document.getElementById("live-status");
    if (!sent.has(event.detail.xhr) || !mark || mark.dataset.state === "live") return;
    // A price changes nothing.
    if (event.detail.elt.matches(".price")) return;
    if (!event.detail.xhr.status || event.detail.xhr.status >= 400) return;
    if (isTyping(event.detail.xhr)) {
      tell("This page is not live: load it again to see what you changed.");
    } else {
      location.reload();
    }
  });

  // -- notices -----------------------------------------------------------
  // They stand on the screen wherever the page is scrolled to. A good one goes by
  // itself, unless somebody points at it; a bad one stays until it is closed.
  var STAYS = 10000;
  var leaving = null;

  function closable(note) {
    var close = document.createElement("button");
    close.type = "button";
    close.className = "notice-close";
    close.dataset.closeNotice = "";
    close.setAttribute("aria-label", "Close this notice");
    close.textContent = "\u00d7";
    note.append(close);
  }

  function tell(text) {
    var note = document.createElement("p");
    note.className = "notice notice-live notice-error";
    var words = document.createElement("span");
    words.textContent = text;
    note.append(words);
    closable(note);
    document.getElementById("notices").replaceChildren(note);
  }

  function letGo(place) {
    clearTimeout(leaving);
    // What can be undone stands until it is closed.
    var good = place.querySelector(".notice-live.notice-success:not(:has(.again))");
    if (!good) return;
    leaving = setTimeout(function () {
      if (good.matches(":hover, :focus-within")) return letGo(place);
      good.remove();
    }, STAYS);
  }

  document.addEventListener("click", function (event) {
    var close = event.target.closest("[data-close-notice]");
    if (close) close.closest(".notice").remove();
  });

  // -- the pane beside the talk ------------------------------------------
  // Escape closes it too, and the focus goes back to where it was opened.
  var opener = null;

  function closeInspector() {
    var pane = document.getElementById("inspector");
    if (!pane || !pane.firstElementChild) return;
    pane.replaceChildren();
    if (opener && document.body.contains(opener)) opener.focus();
    opener = null;
  }

  document.addEventListener("htmx:beforeRequest", function (event) {
    if (event.detail.target && event.detail.target.id === "inspector") {
      opener = event.detail.elt;
    }
  });
  document.addEventListener("click", function (event) {
    if (event.target.closest("[data-close-inspector]")) closeInspector();
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") closeInspector();
  });

  // -- start -----------------------------------------------------------
  document.addEventListener("DOMContentLoaded", function () {
    var served = document.querySelector("#as-of time");
    if (served) setClock(served.getAttribute("datetime"));
    draw(document);
    setInterval(function () {
      draw(document);
    }, 1000);
    startTheme();
    nameTarget();
    showHit();
    // The browser goes to the place of an address by itself until all is loaded.
    window.addEventListener("load", function () {
      requestAnimationFrame(showHit);
    });
    document.querySelectorAll("textarea[data-counter]").forEach(drawCount);
  });
  document.addEventListener("htmx:afterSwap", function (event) {
    draw(event.target);
    if (event.target.id === "notices") letGo(event.target);
    if (event.target.id === "inspector") {
      var close = event.target.querySelector("[data-close-inspector]");
      if (close) close.focus({ preventScroll: true });
    }
    if (event.target.matches(".composer-answer, #inspector")) {
      event.target.scrollIntoView({ block: "nearest" });
    }
  });
})();
