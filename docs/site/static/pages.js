// A view watches for JupyterLab's theme. Here the theme is Furo's: tell the views when it changes.
const tell = () => { document.body.dataset.jpThemeName = document.body.dataset.theme; };
new MutationObserver(tell).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
tell();
