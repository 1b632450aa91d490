// Passkeys. A form that needs one is hidden without this script, and in browsers that have no passkeys.
const isSupported = window.PublicKeyCredential?.parseCreationOptionsFromJSON !== undefined;
for (const note of isSupported ? document.querySelectorAll("[data-unsupported]") : []) note.hidden = true;
for (const input of isSupported ? document.querySelectorAll("input[data-passkey]") : []) {
  const { form } = input;
  const problem = form.querySelector("[data-failed]");
  // A second click would replace the challenge that the first one is about.
  let isWaiting = false;
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isWaiting) return;
    isWaiting = true;
    problem.hidden = true;
    try {
      const response = await fetch(input.dataset.options, { method: "POST" });
      const options = await response.json();
      const credential =
        input.dataset.passkey === "create"
          ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
          : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
      input.value = JSON.stringify(credential);
      form.submit();
    } catch {
      isWaiting = false;
      problem.hidden = false;
    }
  });
}
