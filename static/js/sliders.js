/* A slider beside each number of the what-if form that has one. It shows what the number
   is by itself until it is moved; what the chosen strategy does not take is greyed out. */
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

  function draw(number) {
    var own = JSON.parse(number.dataset.own)[chosenStrategy(number.form)];
    var slider = number.parentElement.querySelector(".slider") || makeSlider(number);
    number.disabled = slider.disabled = own === undefined;
    number.placeholder = own === undefined ? "" : nameOwn(number, own);
    if (document.activeElement !== slider) slider.value = number.value || own || slider.max;
  }

  function drawAll(form) {
    form.querySelectorAll("[data-slider]").forEach(draw);
  }

  document.addEventListener("input", function (event) {
    var form = event.target.closest(".what-if");
    if (form) drawAll(form);
  });
  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll(".what-if").forEach(drawAll);
    // The page of the next context is drawn anew by itself.
    document.body.addEventListener("htmx:afterSettle", function () {
      document.querySelectorAll(".what-if").forEach(drawAll);
    });
  });
})();
