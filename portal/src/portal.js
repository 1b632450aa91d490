// Buttons that copy a text. Without scripts they stay hidden, and the text can be selected.
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = button.dataset.copied;
  });
}
// A page that the browser has kept with what was entered is requested anew: its forms are empty then, and have other nonces.
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});
