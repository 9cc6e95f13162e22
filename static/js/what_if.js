/* A slider beside each number of the what-if form that has one. It shows what the number
   is by itself until it is moved; what the chosen strategy does not take is greyed out.
   Once the sliders rest, the calls of the last hour come in row by row. */
"use strict";
(function () {
  function chosenStrategy(form) {
    var select = form.elements.strategy;
    return select.value || select.dataset.own;
  }

  function makeSlider(number) {
    var ends = number.dataset.slider.split(" ");
    var slider = document.createElement("input");
    slider.type = "range";
    slider.className = "slider";
    slider.min = ends[0];
    slider.max = ends[1];
    slider.step = ends[2];
    slider.setAttribute("aria-label", number.labels[0].textContent + ", slider");
    // The form sends the number alone.
    slider.addEventListener("input", function (event) {
      event.stopPropagation();
      number.value = slider.value;
      number.dispatchEvent(new Event("input", { bubbles: true }));
    });
    number.after(slider);
    return slider;
  }

  function nameOwn(number, own) {
    return number.name === "window" && own === 0 ? "all" : own;
  }

  // Of a window none is as good as all.
  function readMark(number, own) {
    if (number.value) return number.value;
    var all = own === undefined || (number.name === "window" && own === 0);
    return all ? number.parentElement.querySelector(".slider").max : own;
  }

  function draw(number) {
    var own = JSON.parse(number.dataset.own)[chosenStrategy(number.form)];
    var slider = number.parentElement.querySelector(".slider") || makeSlider(number);
    number.disabled = slider.disabled = own === undefined;
    number.placeholder = own === undefined ? "" : nameOwn(number, own);
    if (document.activeElement !== slider) slider.value = readMark(number, own);
  }

  function drawAll(form) {
    form.querySelectorAll("[data-slider]").forEach(draw);
  }

  document.addEventListener("input", function (event) {
    var form = event.target.closest(".what-if");
    if (form) drawAll(form);
  });
  // -- the last hour ------------------------------------------------------
  var REST = 400;
  var reading = null;
  var starts = null;

  function addLine(hour, line) {
    var told = JSON.parse(line);
    hour.querySelector(".hour-sums").innerHTML = told.sums;
    hour.querySelector("tbody").insertAdjacentHTML("beforeend", told.rows);
    window.zoea.draw(hour);
  }

  async function readHour(hour) {
    reading = new AbortController();
    var answer = await fetch(hour.dataset.lines, { signal: reading.signal });
    var lines = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (var rest = "", piece; !(piece = await lines.read()).done; ) {
      var parts = (rest + piece.value).split("\n");
      rest = parts.pop();
      parts.forEach(addLine.bind(null, hour));
    }
  }

  function startHour() {
    clearTimeout(starts);
    if (reading) reading.abort();
    reading = null;
    var hour = document.getElementById("hour");
    if (!hour) return;
    hour.hidden = false;
    starts = setTimeout(function () {
      readHour(hour).catch(function (error) {
        if (error.name === "AbortError") return;
        hour.querySelector(".hour-sums").textContent = "The last hour cannot be read: move a slider to try again.";
      });
    }, REST);
  }

  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll(".what-if").forEach(drawAll);
    startHour();
    // The page of the next context is drawn anew by itself.
    document.body.addEventListener("htmx:afterSettle", function (event) {
      document.querySelectorAll(".what-if").forEach(drawAll);
      if (/^(tried|context-view)$/.test(event.target.id)) startHour();
    });
  });
})();
