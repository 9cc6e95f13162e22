/* The map can be moved and brought closer: by wheel, by hand, by keys. */
"use strict";
(function () {
  var map = document.getElementById("map");
  if (!map) return;
  var whole = map.getAttribute("viewBox").split(" ").map(Number);
  var seen = whole.slice();
  var CLOSEST = 12;

  function draw() {
    var box = seen.join(" ");
    document.querySelectorAll(".map").forEach(function (one) {
      one.setAttribute("viewBox", box);
    });
    // Dots and names keep their size on the screen.
    var scale = 1 / map.getScreenCTM().a;
    map.style.setProperty("--unit", scale);
    // Names that have room at this scale.
    map.querySelectorAll(".names").forEach(function (layer) {
      layer.classList.toggle("near", layer.dataset.scale * scale <= 1);
    });
    document.querySelectorAll(".ships").forEach(function (ship) {
      var dot = ship.querySelector("circle");
      var x = dot.getAttribute("cx");
      var y = dot.getAttribute("cy");
      var about = "translate(" + x + " " + y + ") scale(" + scale + ") translate(" + -x + " " + -y + ")";
      ship.setAttribute("transform", about);
    });
  }

  function zoom(by, x, y) {
    var width = Math.min(whole[2], Math.max(whole[2] / CLOSEST, seen[2] * by));
    var ratio = width / seen[2];
    seen = [x - (x - seen[0]) * ratio, y - (y - seen[1]) * ratio, width, seen[3] * ratio];
    keep();
  }

  // Never so far that nothing is left on the screen.
  function keep() {
    for (var n = 0; n < 2; n += 1) {
      var most = whole[n] + whole[n + 2] - seen[n + 2] / 2;
      seen[n] = Math.max(whole[n] - seen[n + 2] / 2, Math.min(most, seen[n]));
    }
    draw();
  }

  function middle(by) {
    zoom(by, seen[0] + seen[2] / 2, seen[1] + seen[3] / 2);
  }

  function at(event) {
    var point = new DOMPoint(event.clientX, event.clientY);
    return point.matrixTransform(map.getScreenCTM().inverse());
  }

  // A trail lies over the map, and tells of itself: there the map is held as well.
  function listen(name, act, options) {
    map.parentElement.addEventListener(
      name,
      function (event) {
        if (event.target.closest("svg.map")) act(event);
      },
      options,
    );
  }

  listen(
    "wheel",
    function (event) {
      // At its ends the wheel is the page's again: nobody is caught in the map.
      var out = event.deltaY > 0;
      if (out ? seen[2] >= whole[2] : seen[2] <= whole[2] / CLOSEST) return;
      event.preventDefault();
      var place = at(event);
      zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, place.x, place.y);
    },
    { passive: false },
  );
  // A mouse moves the map with one button. On a touch screen one finger scrolls the
  // page, as everywhere, and two move the map and bring it closer.
  var down = new Map();
  // The spot of the map that is held, and how far apart the two fingers were.
  var held = null;
  var apart = 0;

  function middleOf() {
    var x = 0;
    var y = 0;
    down.forEach(function (one) {
      x += one.clientX / down.size;
      y += one.clientY / down.size;
    });
    return { clientX: x, clientY: y };
  }

  function spread() {
    var ends = Array.from(down.values());
    return Math.hypot(ends[0].clientX - ends[1].clientX, ends[0].clientY - ends[1].clientY);
  }

  function grip() {
    held = down.size ? at(middleOf()) : null;
    apart = down.size === 2 ? Math.max(1, spread()) : 0;
  }

  function isTouch(event) {
    return event.pointerType === "touch";
  }

  listen("pointerdown", function (event) {
    if (down.size === 2) return;
    down.set(event.pointerId, event);
    if (!isTouch(event)) map.setPointerCapture(event.pointerId);
    grip();
  });
  listen("pointermove", function (event) {
    if (!down.has(event.pointerId)) return;
    down.set(event.pointerId, event);
    if (isTouch(event) && down.size < 2) return;
    if (apart) {
      var now = Math.max(1, spread());
      zoom(apart / now, held.x, held.y);
      apart = now;
    }
    var place = at(middleOf());
    seen[0] += held.x - place.x;
    seen[1] += held.y - place.y;
    keep();
  });
  ["pointerup", "pointercancel"].forEach(function (name) {
    window.addEventListener(name, function (event) {
      if (down.delete(event.pointerId)) grip();
    });
  });
  // Else the browser would take two fingers for a zoom of the whole page.
  ["touchstart", "touchmove"].forEach(function (name) {
    listen(
      name,
      function (event) {
        if (event.touches.length > 1) event.preventDefault();
      },
      { passive: false },
    );
  });

  var KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  map.addEventListener("keydown", function (event) {
    var step = KEYS[event.key];
    if (step) {
      event.preventDefault();
      seen[0] += (step[0] * seen[2]) / 8;
      seen[1] += (step[1] * seen[3]) / 8;
      keep();
    } else if (event.key === "+" || event.key === "=") {
      middle(1 / 1.4);
    } else if (event.key === "-") {
      middle(1.4);
    } else if (event.key === "0") {
      seen = whole.slice();
      draw();
    }
  });
  document.addEventListener("click", function (event) {
    var button = event.target.closest("[data-zoom], [data-look]");
    if (!button) return;
    if (button.dataset.look) {
      var place = button.dataset.look.split(",").map(Number);
      var width = whole[2] / 4;
      var height = whole[3] / 4;
      seen = [place[0] - width / 2, place[1] - height / 2, width, height];
      keep();
      map.scrollIntoView({ block: "nearest" });
    } else if (button.dataset.zoom === "all") {
      seen = whole.slice();
      draw();
    } else {
      middle(button.dataset.zoom === "in" ? 1 / 1.4 : 1.4);
    }
  });
  document.addEventListener("htmx:wsAfterMessage", draw);
  window.addEventListener("resize", draw);
  draw();
})();
