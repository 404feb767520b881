import { render } from "preact";
import { App, applyTheme, keptTheme } from "./app";
import "uplot.css";
import "./css/base.css";
import "./css/pages.css";
import "./css/diagram.css";
import "./css/releases.css";

applyTheme(keptTheme());
const root = document.getElementById("app")!;
root.textContent = "";
render(<App />, root);
