/* The live part: the socket's state, and keeping the reader's place.

   The socket only ever brings fragments. What this file adds is that a swap
   takes neither focus, nor opened details, nor the scroll position away. */
"use strict";
(function () {
  var SIGNED_OUT = 4401;
  var GONE = 4404;
  var RETRIED_BY_HTMX = [1006, 1011, 1012, 1013];
  // The server's clock comes at least every ten seconds.
  var SILENT_AFTER = 35000;
  var lastFrame = 0;
  var state = "";

  // -- reconnecting -----------------------------------------------------
  htmx.config.wsReconnectDelay = function (tries) {
    var most = Math.min(8000, 500 * Math.pow(2, tries));
    return most / 2 + (most / 2) * Math.random();
  };

  // Asked anew for every connection, so that a socket that comes back brings
  // exactly what this page has not got.
  htmx.createWebSocket = function (address) {
    var url = new URL(address);
    // The newest frame would bring what the page was just loaded with once more.
    [["rows", "fleet-rows"], ["feed", "feed"]].forEach(function (part) {
      var shown = document.getElementById(part[1]);
      if (shown && shown.dataset.v) url.searchParams.set(part[0], shown.dataset.v);
    });
    var log = document.querySelector("#log[data-live]");
    if (log) {
      var lines = log.querySelectorAll(":scope > [data-id]");
      var last = lines.length ? lines[lines.length - 1].dataset.id : "0";
      url.searchParams.set("after", String(Math.max(parseInt(last, 10), heldUpTo)));
      var open = Array.from(log.querySelectorAll(":scope > [data-pending]"));
      var ids = open.slice(-50).map(function (line) {
        return line.dataset.id;
      });
      if (ids.length) url.searchParams.set("pending", ids.join(","));
      var calls = log.querySelectorAll(":scope > [data-call]");
      if (calls.length) url.searchParams.set("call", calls[calls.length - 1].dataset.call);
    }
    var feed = document.querySelector("#feed[data-live]");
    if (feed && feed.dataset.newest) url.searchParams.set("after", feed.dataset.newest);
    return new WebSocket(url.href);
  };

  // -- saying how the connection is ---------------------------------------
  var WORDS = {
    connecting: "connecting",
    live: "live",
    lost: "reconnecting",
    silent: "no answer",
    out: "signed out",
    gone: "gone",
  };

  function banner(text, link, label) {
    var place = document.getElementById("connection");
    place.replaceChildren(document.createTextNode(text));
    if (link) {
      var anchor = document.createElement("a");
      anchor.href = link;
      anchor.textContent = label;
      place.append(" ", anchor);
    }
    place.hidden = text === "";
  }

  function show(next) {
    if (state === next) return;
    state = next;
    var mark = document.getElementById("live-status");
    if (mark) mark.dataset.state = next;
    var word = document.getElementById("live-word");
    if (word) word.textContent = WORDS[next];
    if (next === "live" || next === "connecting") {
      banner("");
    } else if (next === "out") {
      var here = encodeURIComponent(location.pathname + location.search);
      banner("You are signed out, this page no longer changes.", "/sign-in/?next=" + here, "Sign in");
    } else if (next === "gone") {
      var page = document.querySelector("[data-gone]");
      var gone = page ? page.dataset.gone : "What this page shows is no longer there.";
      banner(gone, "/", "To the fleet");
    } else {
      banner("The connection is lost, trying again. What you see may be old.");
    }
  }

  document.addEventListener("htmx:wsConnecting", function () {
    if (state === "") show("connecting");
  });
  document.addEventListener("htmx:wsOpen", function () {
    lastFrame = Date.now();
  });
  document.addEventListener("htmx:wsClose", function (event) {
    var code = event.detail.event.code;
    if (!document.body.contains(event.target)) return;
    if (code === SIGNED_OUT) return show("out");
    if (code === GONE) return show("gone");
    show("lost");
    if (RETRIED_BY_HTMX.indexOf(code) < 0) {
      var wrapper = event.detail.socketWrapper;
      setTimeout(function () {
        if (document.body.contains(event.target)) wrapper.reconnect();
      }, 1000 + 2000 * Math.random());
    }
  });
  setInterval(function () {
    if (state === "live" && Date.now() - lastFrame > SILENT_AFTER) show("silent");
  }, 1000);

  // -- what a swap must not take away ---------------------------------------
  var focused = null;
  var opened = {};
  var atEnd = false;

  function logBox() {
    return document.getElementById("log-scroll");
  }

  function isAtEnd(box) {
    return box.scrollHeight - box.scrollTop - box.clientHeight < 60;
  }

  function rememberDetails() {
    opened = {};
    document.querySelectorAll("details[id]").forEach(function (node) {
      opened[node.id] = node.open;
    });
  }

  function restoreDetails() {
    Object.keys(opened).forEach(function (id) {
      var node = document.getElementById(id);
      if (node && node.open !== opened[id]) node.open = opened[id];
    });
  }

  document.addEventListener("htmx:wsBeforeMessage", function () {
    lastFrame = Date.now();
    var active = document.activeElement;
    focused = active && active.id ? active : null;
    rememberDetails();
    var box = logBox();
    atEnd = Boolean(box) && isAtEnd(box);
  });

  document.addEventListener("htmx:wsAfterMessage", function () {
    var clock = document.querySelector("#as-of time");
    if (clock) window.zoea.setClock(clock.getAttribute("datetime"));
    restoreDetails();
    if (focused && !document.body.contains(focused)) {
      var again = document.getElementById(focused.id);
      if (again) again.focus({ preventScroll: true });
    }
    trim(document.getElementById("feed"), "last");
    followLog();
    window.zoea.draw(document);
    show("live");
  });

  // Every live element carries the version of its inside. What is here already
  // is left alone: a swap would take a click or a selection away. A part that
  // changes makes the version of what holds it void.
  function voidAround(node) {
    for (
      var outer = node.parentElement && node.parentElement.closest("[data-v]");
      outer;
      outer = outer.parentElement && outer.parentElement.closest("[data-v]")
    ) {
      delete outer.dataset.v;
    }
  }

  document.addEventListener("htmx:oobBeforeSwap", function (event) {
    var target = event.detail.target;
    var incoming = event.detail.fragment;
    if (target.id === "log" && isHeldBack(target, incoming)) {
      event.detail.shouldSwap = false;
      return;
    }
    var version = incoming.dataset && incoming.dataset.v;
    if (version && target.dataset.v === version) {
      event.detail.shouldSwap = false;
      return;
    }
    if (version) {
      target.dataset.v = version;
    } else {
      delete target.dataset.v;
    }
    voidAround(target);
  });

  // Lists that grow are cut at the end that nobody reads.
  function trim(list, end) {
    if (!list) return;
    var most = parseInt(list.dataset.keep, 10);
    var empty = list.querySelector(".feed-empty");
    if (empty && list.children.length > 1) empty.remove();
    while (list.children.length > most) {
      (end === "last" ? list.lastElementChild : list.firstElementChild).remove();
    }
  }

  // -- the conversation ------------------------------------------------------
  var unread = 0;
  var known = 0;
  // The newest line that was counted only; 0 while every line is shown.
  var heldUpTo = 0;

  // Nothing is cut while somebody reads further up, so the list must not grow
  // for ever either: from twice its length on, new lines are only counted.
  function isHeldBack(log, incoming) {
    // Without a box of its own the list scrolls with the page, and is cut as it grows.
    if (!logBox()) return false;
    if (incoming.dataset && incoming.dataset.v) {
      // All of it anew, from the newest page: nothing is missing any more.
      heldUpTo = 0;
      return false;
    }
    var most = 2 * parseInt(log.dataset.keep, 10);
    var shown = log.querySelectorAll(":scope > [data-id]").length;
    if (!heldUpTo && (atEnd || shown < most)) return false;
    incoming.querySelectorAll(":scope > [data-id]").forEach(function (line) {
      heldUpTo = Math.max(heldUpTo, parseInt(line.dataset.id, 10));
      unread += 1;
    });
    showPill();
    return true;
  }

  function newest() {
    var lines = document.querySelectorAll("#log > [data-id]");
    return lines.length ? parseInt(lines[lines.length - 1].dataset.id, 10) : 0;
  }

  function countAfter(id) {
    var count = 0;
    document.querySelectorAll("#log > [data-id]").forEach(function (line) {
      if (parseInt(line.dataset.id, 10) > id) count += 1;
    });
    return count;
  }

  function showPill() {
    var pill = document.getElementById("log-pill");
    if (!pill) return;
    pill.hidden = unread === 0;
    pill.querySelector("span").textContent = unread + " new";
  }

  function toEnd(box) {
    box.scrollTop = box.scrollHeight;
    unread = 0;
    showPill();
  }

  function followLog() {
    var box = logBox();
    var log = document.querySelector("#log[data-live]");
    if (!log) return;
    var empty = log.parentElement.querySelector(".empty-log");
    if (empty && log.children.length) empty.remove();
    if (!box) return trimLog(log);
    var latest = newest();
    var added = latest > known ? countAfter(known) : 0;
    known = latest;
    if (atEnd && !heldUpTo) {
      trimLog(log);
      toEnd(box);
    } else if (added) {
      unread += added;
      showPill();
    }
  }

  // In a box only at the end: above, somebody is reading what would go.
  function trimLog(log) {
    var most = parseInt(log.dataset.keep, 10);
    var lines = log.querySelectorAll(":scope > [data-id]");
    for (var i = 0; i < lines.length - most; i += 1) lines[i].remove();
    if (lines.length > most) trimCalls(lines[lines.length - most]);
  }

  // The calls that wrote what went go with it; the one before the first line stays.
  function trimCalls(first) {
    var call = first.previousElementSibling;
    while (call && call.previousElementSibling) {
      var earlier = call.previousElementSibling;
      if (earlier.dataset.call) earlier.remove();
      else call = earlier;
    }
  }

  // Where the page begins after trimming, older messages begin before that.
  document.addEventListener("htmx:configRequest", function (event) {
    if (!event.target.closest || !event.target.closest("#log-older")) return;
    var first = document.querySelector("#log > [data-id]");
    if (first) event.detail.path = event.detail.path.replace(/before=\d+/, "before=" + first.dataset.id);
  });

  // Older lines come in above: what is being read must not move.
  var heightBefore = 0;
  document.addEventListener("htmx:beforeSwap", function (event) {
    if (event.target.id === "log-older" && logBox()) heightBefore = logBox().scrollHeight;
  });
  document.addEventListener("htmx:afterSwap", function (event) {
    var box = logBox();
    if (!box || !heightBefore || !box.contains(event.target)) return;
    box.scrollTop += box.scrollHeight - heightBefore;
    heightBefore = 0;
  });

  document.addEventListener("click", function (event) {
    if (!event.target.closest("#log-pill")) return;
    if (heldUpTo) {
      // What was not kept is read anew: the page opens on its newest lines.
      location.reload();
    } else {
      toEnd(logBox());
    }
  });

  document.addEventListener("DOMContentLoaded", function () {
    var box = logBox();
    if (!box) return;
    known = newest();
    var place = box.dataset.at && document.getElementById(box.dataset.at);
    if (place) {
      var spot = place.querySelector(".line-body mark") || place;
      window.zoea.showPlace(spot);
    } else {
      toEnd(box);
    }
    box.addEventListener("scroll", function () {
      if (isAtEnd(box) && unread && !heldUpTo) toEnd(box);
    });
  });
})();
