/* A list of events that grows at its top, and waits while it is read. */
"use strict";
(function () {
  // -- the feed ------------------------------------------------------------
  // While it is paused or scrolled, new lines are only counted: nothing moves
  // under the eyes, and nothing grows.
  var held = 0;

  function feed() {
    return document.getElementById("feed");
  }

  function isPage() {
    return feed().classList.contains("feed-page");
  }

  function waits() {
    if (document.getElementById("feed-pause").checked) return true;
    // A page of its own has no box that scrolls: the reader is below its top edge.
    if (isPage()) return feed().getBoundingClientRect().top < 0;
    return feed().scrollTop > 20;
  }

  function showHeld() {
    var pill = document.getElementById("feed-pill");
    pill.hidden = held === 0;
    pill.querySelector("span").textContent = held + " new";
  }

  // While the newest are asked for, the answer is already made, and would wipe out what
  // the socket brings meanwhile: that waits, and is put on top of the answer.
  var isAsking = false;
  var asked = 0;
  var meanwhile = [];
  var again = false;

  function catchUp() {
    var pill = document.getElementById("feed-pill");
    delete feed().dataset.v;
    asked = held;
    held = 0;
    showHeld();
    var source = pill.dataset.source + (group() ? "?group=" + group() : "");
    // By the feed itself: a request of the page that is under way would hold it up.
    var by = { source: feed(), target: feed(), swap: "innerHTML" };
    htmx.ajax("GET", source, by).then(function () {
      feed().scrollTop = 0;
      if (isPage() && waits()) window.scrollTo(0, 0);
    });
  }

  function isForFeed(event) {
    return event.detail.requestConfig.target === feed();
  }

  function keepForLater(incoming) {
    if (incoming.dataset && incoming.dataset.v) {
      again = true;
    } else if (incoming.querySelectorAll) {
      meanwhile = Array.from(incoming.querySelectorAll("[data-event]")).concat(meanwhile);
    }
  }

  function has(line) {
    return feed().querySelector('[data-event="' + line.dataset.event + '"]');
  }

  function putOnTop(lines) {
    var missing = lines.filter(function (line) {
      return !line.matches(unwanted()) && !has(line);
    });
    var empty = missing.length && feed().querySelector(".feed-empty");
    if (empty) empty.remove();
    feed().prepend.apply(feed(), missing);
    window.zoea.draw(feed());
  }

  document.addEventListener("htmx:beforeSend", function (event) {
    if (isForFeed(event)) isAsking = true;
  });
  document.addEventListener("htmx:afterRequest", function (event) {
    if (!isForFeed(event)) return;
    isAsking = false;
    var came = meanwhile.splice(0);
    if (event.detail.successful) {
      putOnTop(came);
      if (again) catchUp();
    } else {
      // All of it is there to be asked for once more.
      held = Math.min(999, asked + came.length);
      showHeld();
    }
    again = false;
  });

  // The chip that is chosen: its lines are asked for, since those at hand are the
  // newest of all kinds. What comes by the socket is of all kinds, and hidden by CSS.
  function group() {
    var chosen = document.querySelector("input[name=feed]:checked");
    return chosen ? chosen.value : "";
  }

  // Lines that the list does not have: what became stale stands under its own chip only.
  // The page of all events has every line.
  function unwanted() {
    if (group()) return ".feed-line:not(.group-" + group() + ")";
    return isPage() ? ":not(*)" : ".feed-snapshotstale";
  }

  function fresh(fragment) {
    if (!fragment.querySelectorAll) return 1;
    var lines = Array.from(fragment.querySelectorAll("[data-event]"));
    return lines.filter(function (line) {
      return !line.matches(unwanted());
    }).length;
  }

  // What is here already does not come twice, and a socket that comes back goes on
  // behind what this page was told last, shown or only counted.
  function note(incoming) {
    if (!incoming.querySelectorAll || (incoming.dataset && incoming.dataset.v)) return;
    var lines = incoming.querySelectorAll("[data-event]");
    if (lines.length) feed().dataset.newest = lines[0].dataset.event;
    lines.forEach(function (line) {
      if (has(line)) line.remove();
    });
  }

  // The list is cut at its end: from then on there are older ones.
  var oldest = 0;

  function showOlder() {
    var pager = document.getElementById("feed-pager");
    var lines = feed().querySelectorAll(":scope > [data-event]");
    if (!pager || !lines.length) return;
    var last = parseInt(lines[lines.length - 1].dataset.event, 10);
    oldest = oldest || last;
    if (last > oldest) pager.hidden = false;
  }

  // They begin behind what is left of the list.
  document.addEventListener("click", function (event) {
    var older = event.target.closest("#feed-older");
    var lines = older ? feed().querySelectorAll(":scope > [data-event]") : [];
    if (!lines.length) return;
    var last = lines[lines.length - 1].dataset.event;
    older.href = older.href.replace(/before=\d+/, "before=" + last);
  });

  document.addEventListener("htmx:oobBeforeSwap", function (event) {
    if (event.detail.target.id !== "feed") return;
    var incoming = event.detail.fragment;
    note(incoming);
    if (isAsking) {
      event.detail.shouldSwap = false;
      keepForLater(incoming);
    } else if (waits()) {
      event.detail.shouldSwap = false;
      held = Math.min(999, held + fresh(incoming));
      showHeld();
    } else if (group() && incoming.dataset && incoming.dataset.v) {
      // All of the feed anew, and of all kinds: the chip's own are asked for.
      event.detail.shouldSwap = false;
      catchUp();
    } else if (incoming.querySelectorAll && !(incoming.dataset && incoming.dataset.v)) {
      // Left in, they would push the wanted lines out of a list that is cut.
      incoming.querySelectorAll(unwanted()).forEach(function (line) {
        line.remove();
      });
    }
  });
  document.addEventListener("click", function (event) {
    if (!event.target.closest("#feed-pill")) return;
    document.getElementById("feed-pause").checked = false;
    catchUp();
  });
  document.addEventListener("change", function (event) {
    if (event.target.name === "feed") catchUp();
    if (event.target.id === "feed-pause" && !event.target.checked && held) catchUp();
  });

  document.addEventListener("DOMContentLoaded", function () {
    showOlder();
    new MutationObserver(showOlder).observe(feed(), { childList: true });
    [feed(), window].forEach(function (place) {
      place.addEventListener("scroll", function () {
        if (held && !waits()) catchUp();
      }, { passive: true });
    });
  });
})();
