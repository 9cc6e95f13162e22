/* Runs before the first paint: the remembered theme, if one was chosen. The admin
   remembers it under the same name. */
"use strict";
(function () {
  try {
    var chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") {
      document.documentElement.dataset.theme = chosen;
    }
  } catch (error) {
    /* Storage may be forbidden; the system's theme is then the theme. */
  }
})();
