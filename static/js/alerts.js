/* Notifications of this browser, for who asked for them: the socket of any live page
   brings alerts into a hidden list, and nothing leaves this server and this browser. */
"use strict";
(function () {
  // One alert per cause in ten minutes, whichever tabs are open.
  var QUIET = 600000;
  var WANTED = "zoea-notify";
  var TOLD = "zoea-told-";

  function read(key) {
    try {
      return localStorage.getItem(key);
    } catch (error) {
      return null;
    }
  }

  function keep(key, value) {
    try {
      localStorage.setItem(key, value);
    } catch (error) {
      /* Not remembered then. */
    }
  }

  // On phones only a service worker may notify, and these pages install none.
  function onPhone() {
    return Boolean(navigator.userAgentData && navigator.userAgentData.mobile);
  }

  function usable() {
    return "Notification" in window && window.isSecureContext && !onPhone();
  }

  function wanted() {
    return usable() && Notification.permission === "granted" && read(WANTED) === "on";
  }

  function isQuiet(cause) {
    var told = parseInt(read(TOLD + cause) || "0", 10);
    return Date.now() - told < QUIET;
  }

  function forgetOld() {
    try {
      Object.keys(localStorage).forEach(function (key) {
        if (key.indexOf(TOLD) === 0 && !isQuiet(key.slice(TOLD.length))) {
          localStorage.removeItem(key);
        }
      });
    } catch (error) {
      /* Nothing was kept. */
    }
  }

  function notify(item) {
    if (!wanted() || isQuiet(item.dataset.cause)) return;
    keep(TOLD + item.dataset.cause, String(Date.now()));
    var note;
    // Two tabs that are told at the same moment show one: it has the same tag.
    try {
      note = new Notification(item.dataset.title, {
        body: item.textContent,
        tag: "zoea-alert-" + item.dataset.alert,
      });
    } catch (error) {
      // Browsers on phones have the name, and want a service worker for it.
      return;
    }
    note.onclick = function () {
      window.focus();
      if (item.dataset.link.charAt(0) === "/") location.assign(item.dataset.link);
    };
  }

  function show(button) {
    var words = document.getElementById("notify-words");
    var on = wanted();
    button.disabled = !usable() || Notification.permission === "denied";
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Stop notifying me here" : "Notify me here";
    words.textContent = !usable()
      ? "Browsers notify on a desktop, over https or on localhost only."
      : Notification.permission === "denied"
        ? "Notifications of this address are blocked: allow them in the browser's settings."
        : on
          ? "While a live page is open in any tab, each alert is shown once."
          : "Off. While a live page is open in any tab, alerts can be shown by the browser.";
  }

  function toggle(button) {
    if (wanted()) {
      keep(WANTED, "off");
      return show(button);
    }
    Notification.requestPermission().then(function (given) {
      if (given === "granted") keep(WANTED, "on");
      show(button);
    });
  }

  document.addEventListener("DOMContentLoaded", function () {
    forgetOld();
    var news = document.getElementById("alert-news");
    if (news) {
      new MutationObserver(function () {
        Array.from(news.children).forEach(function (item) {
          item.remove();
          notify(item);
        });
      }).observe(news, { childList: true });
    }
    var button = document.getElementById("notify");
    if (!button) return;
    show(button);
    button.addEventListener("click", function () {
      toggle(button);
    });
  });
})();
