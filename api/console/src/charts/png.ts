import type uPlot from "uplot";
import { exact } from "../format";
import { download } from "../ui";
import type { Var } from "../variables";
import { styleOf } from "./plot";

const row = 20;

/** Saves the charts below each other as a picture, with their legend. */
export async function savePNG(plots: uPlot[], vars: Var[]): Promise<void> {
  const first = plots[0];
  if (!first) return;
  const scale = window.devicePixelRatio || 1;
  const width = Math.max(...plots.map((p) => p.ctx.canvas.width));
  const charts = plots.reduce((sum, p) => sum + p.ctx.canvas.height, 0);
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = charts + (vars.length + 1) * row * scale + 8 * scale;
  const c = canvas.getContext("2d")!;
  const css = getComputedStyle(document.documentElement);
  c.fillStyle = css.getPropertyValue("--panel").trim();
  c.fillRect(0, 0, canvas.width, canvas.height);
  let top = 0;
  for (const p of plots) {
    c.drawImage(p.ctx.canvas, 0, top);
    top += p.ctx.canvas.height;
  }
  c.scale(scale, scale);
  legend(c, vars, top / scale, css.getPropertyValue("--ink").trim());
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
  if (blob) download("tsmon.png", blob);
}

function legend(c: CanvasRenderingContext2D, vars: Var[], top: number, ink: string): void {
  c.font = "13px system-ui, sans-serif";
  vars.forEach((v, i) => {
    const y = top + (i + 0.7) * row;
    const style = styleOf(document.documentElement, i);
    c.strokeStyle = style.stroke;
    c.lineWidth = 3;
    c.setLineDash(style.dash);
    c.beginPath();
    c.moveTo(12, y - 4);
    c.lineTo(36, y - 4);
    c.stroke();
    c.fillStyle = ink;
    c.fillText(v.name + (v.unit && ` (${v.unit})`), 44, y);
  });
  c.fillText(exact(Date.now()), 12, top + (vars.length + 0.7) * row);
}
