/* Lanes: hover tells, a click opens the message in its place, a drag zooms; by keys too.
   The drawing comes by the socket again and again: nothing here is kept inside it. */
"use strict";
(function () {
  // So far a pointer moves before it means a span of time, in pixels.
  var DRAG = 6;
  // With Shift an arrow key goes so many steps.
  var FAR = 10;
  // What is drawn of marks is told in their words.
  var MARKS = ["order", "change", "compaction", "attack"];
  // Where the keys are: a lane, and the second since 1970 at which its step begins.
  var spot = null;
  var began = null;

  var clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  var exact = new Intl.DateTimeFormat(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
  });

  function chartOf(node) {
    return node && node.closest ? node.closest(".lane-chart") : null;
  }

  function read(chart) {
    var data = chart.closest(".lanes").dataset;
    return { since: Number(data.since), step: Number(data.step), count: Number(data.count) };
  }

  function lanesOf(chart) {
    return Array.from(chart.querySelectorAll("g[data-m]"));
  }

  function within(value, most) {
    return Math.max(0, Math.min(most, value));
  }

  // The lane and the step below a point of the window.
  function find(chart, x, y) {
    var box = chart.getBoundingClientRect();
    var axis = read(chart);
    var lanes = lanesOf(chart).length;
    return {
      step: within(Math.floor(((x - box.left) / box.width) * axis.count), axis.count - 1),
      lane: within(Math.floor(((y - box.top) / box.height) * lanes), lanes - 1),
    };
  }

  // Whether a path (M, m and h, or M and v) has a stroke in a step.
  function covers(path, step) {
    var at = 0;
    var parts = path.getAttribute("d").match(/[Mmhv][^Mmhv]*/g) || [];
    return parts.some(function (part) {
      var value = parseFloat(part.slice(1));
      if (part[0] === "M") at = value;
      if (part[0] === "m") at += value;
      if (part[0] === "h" && value > 0) {
        at += value;
        return step >= at - value && step < at;
      }
      return (part[0] === "v" || value === 0) && part[0] !== "m" && part[0] !== "M" && Math.floor(at) === step;
    });
  }

  function timeAt(axis, step) {
    return new Date((axis.since + step * axis.step) * 1000);
  }

  function words(chart, place) {
    var axis = read(chart);
    var lane = lanesOf(chart)[place.lane];
    if (!lane) return "";
    var name = chart.closest(".lanes").querySelectorAll(".lane-names a")[place.lane].textContent.trim();
    var write = axis.step < 60 ? exact : clock;
    var from = write.format(timeAt(axis, place.step));
    var to = write.format(timeAt(axis, place.step + 1));
    var done = Array.from(lane.querySelectorAll("path"))
      .filter(function (path) {
        return covers(path, place.step);
      })
      .map(function (path) {
        return path.getAttribute("class").slice(2);
      })
      .filter(function (name) {
        return MARKS.indexOf(name) < 0;
      });
    var told = lane.querySelector("desc");
    var mark = told && JSON.parse(told.dataset.told)[place.step];
    if (mark) done.push(mark);
    return name + ", " + from + " to " + to + ": " + (done.join(", ") || "at rest");
  }

  function tell(text, x, y) {
    var node = document.getElementById("lane-tell");
    node.hidden = text === "";
    if (!text) return;
    if (node.textContent !== text) node.textContent = text;
    var most = document.documentElement.clientWidth - node.offsetWidth - 8;
    node.style.left = within(x + window.scrollX + 12, most + window.scrollX) + "px";
    node.style.top = y + window.scrollY + 16 + "px";
  }

  // A box over the drawing: the step under the cursor, or the span that is drawn out.
  function mark(left, top, width, height) {
    var box = document.getElementById("lane-cursor");
    box.hidden = width === undefined;
    if (box.hidden) return;
    box.style.left = left + window.scrollX + "px";
    box.style.top = top + window.scrollY + "px";
    box.style.width = Math.max(4, width) + "px";
    box.style.height = height + "px";
  }

  function hide() {
    tell("");
    mark();
  }

  function stepBox(chart, place) {
    var box = chart.getBoundingClientRect();
    var width = box.width / read(chart).count;
    var height = box.height / Math.max(1, lanesOf(chart).length);
    return [box.left + place.step * width, box.top + place.lane * height, width, height];
  }

  // A narrow window shows a part of the drawing: the step comes into it, beside the names.
  function show(chart, place) {
    var frame = chart.closest(".lanes");
    var names = frame.querySelector(".lane-names").getBoundingClientRect();
    var outer = frame.getBoundingClientRect();
    var box = stepBox(chart, place);
    var left = names.right + 8;
    var right = outer.right - 8;
    if (box[0] < left) frame.scrollLeft -= left - box[0];
    else if (box[0] + box[2] > right) frame.scrollLeft += box[0] + box[2] - right;
  }

  function open(chart, place, apart) {
    var lane = lanesOf(chart)[place.lane];
    if (!lane) return;
    var axis = read(chart);
    var at = axis.since + place.step * axis.step;
    var address = chart.dataset.place + "?mysis=" + lane.dataset.m + "&at=" + at + "&step=" + axis.step;
    if (apart) {
      window.open(address);
    } else {
      location.assign(address);
    }
  }

  function zoom(chart, first, last) {
    var axis = read(chart);
    var address = new URL(location.href);
    function iso(step) {
      return timeAt(axis, step).toISOString().replace(".000Z", "Z");
    }
    address.searchParams.set("since", iso(first));
    address.searchParams.set("until", iso(last + 1));
    location.assign(address.href);
  }

  document.addEventListener("pointermove", function (event) {
    var chart = began ? began.chart : chartOf(event.target);
    if (!chart || !document.body.contains(chart)) {
      if (!began && document.activeElement !== document.querySelector(".lane-chart")) hide();
      return;
    }
    var place = find(chart, event.clientX, event.clientY);
    if (began && Math.abs(event.clientX - began.x) >= DRAG) {
      var box = chart.getBoundingClientRect();
      var x = within(event.clientX - box.left, box.width) + box.left;
      mark(Math.min(began.x, x), box.top, Math.abs(x - began.x), box.height);
      tell("");
    } else {
      tell(words(chart, place), event.clientX, event.clientY);
    }
  });

  // With a finger the page is scrolled: only a mouse or a pen draws a span out.
  document.addEventListener("pointerdown", function (event) {
    var chart = chartOf(event.target);
    if (!chart || event.button !== 0) return;
    began = { chart: chart, x: event.clientX, y: event.clientY, drags: event.pointerType !== "touch" };
  });
  document.addEventListener("pointercancel", function () {
    began = null;
    hide();
  });
  document.addEventListener("pointerup", function (event) {
    if (!began) return;
    var from = began;
    began = null;
    // The drawing may have come anew meanwhile, in the same place.
    var chart = document.body.contains(from.chart) ? from.chart : document.querySelector(".lane-chart");
    if (!chart) return;
    var first = find(chart, Math.min(from.x, event.clientX), from.y);
    var last = find(chart, Math.max(from.x, event.clientX), from.y);
    if (Math.abs(event.clientX - from.x) < DRAG) {
      open(chart, find(chart, event.clientX, event.clientY), event.ctrlKey || event.metaKey);
    } else if (from.drags) {
      zoom(chart, first.step, last.step);
    }
  });

  var KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  document.addEventListener("keydown", function (event) {
    var chart = event.target.classList && event.target.classList.contains("lane-chart") ? event.target : null;
    if (!chart) return;
    var axis = read(chart);
    var here = spot && {
      step: Math.floor((spot.at - axis.since) / axis.step),
      lane: within(spot.lane, lanesOf(chart).length - 1),
    };
    if (here && (here.step < 0 || here.step >= axis.count)) here = null;
    if (event.key === "Enter" && here) return open(chart, here, event.ctrlKey || event.metaKey);
    if (event.key === "Escape") return hide();
    var by = KEYS[event.key];
    if (!by) return;
    event.preventDefault();
    var from = here || { step: axis.count, lane: 0 };
    here = {
      step: within(from.step + by[0] * (event.shiftKey ? FAR : 1), axis.count - 1),
      lane: within(from.lane + by[1], lanesOf(chart).length - 1),
    };
    spot = { lane: here.lane, at: axis.since + here.step * axis.step };
    show(chart, here);
    var box = stepBox(chart, here);
    mark(box[0], box[1], box[2], box[3]);
    tell(words(chart, here), box[0], box[1] + box[3] - 8);
    document.getElementById("lane-said").textContent = words(chart, here);
  });
  document.addEventListener("focusout", function (event) {
    if (chartOf(event.target)) hide();
  });

  // Times of the axis in the zone of the reader.
  function drawTicks() {
    document.querySelectorAll(".lane-ticks text").forEach(function (node) {
      var at = new Date(node.dataset.at);
      var midnight = at.getHours() === 0 && at.getMinutes() === 0;
      var text = midnight
        ? at.toLocaleDateString(undefined, { month: "short", day: "numeric" })
        : clock.format(at);
      if (node.textContent !== text) node.textContent = text;
    });
  }

  // The focus of the keys and the place survive a drawing that comes anew.
  var focused = false;
  // A narrow window shows a part of the drawing, at first the newest.
  var scrolled = null;

  function scroll() {
    var box = document.querySelector(".lanes");
    if (box) box.scrollLeft = scrolled === null ? box.scrollWidth : scrolled;
  }

  document.addEventListener("htmx:wsBeforeMessage", function () {
    focused = Boolean(chartOf(document.activeElement));
    var box = document.querySelector(".lanes");
    if (box) scrolled = box.scrollLeft;
  });
  document.addEventListener("htmx:wsAfterMessage", function () {
    drawTicks();
    scroll();
    var chart = document.querySelector(".lane-chart");
    if (focused && chart && document.activeElement !== chart) chart.focus({ preventScroll: true });
  });
  document.addEventListener("htmx:afterSettle", drawTicks);
  document.addEventListener("DOMContentLoaded", function () {
    drawTicks();
    scroll();
  });
})();
