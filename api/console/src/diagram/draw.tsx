// Draws the objects of a diagram. View and editor share it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { show } from "../format";
import { t } from "../i18n";
import type { Limits } from "../limits";
import type { Poll } from "../poll";
import type { Var } from "../variables";
import { flowOf } from "./flow";
import { boxOf, canvasOf, isShown, kinds, num, pointsOf, sizeOf, text, varsOf, type ById, type Doc, type Item, type Kind } from "./model";

export interface Live {
  poll: Poll;
  byId: ById;
  limits?: Limits;
}

interface DrawProps {
  doc: Doc;
  live?: Live;
  /** The editor shows objects that are switched off, and does not move anything. */
  editing?: boolean;
}

/** Background, areas, lines, pictures, texts; values on top. */
export function Drawing({ doc, live, editing }: DrawProps): JSX.Element {
  const { width, height } = canvasOf(doc);
  const image = text(doc.head.backgroundImg);
  const items = (kind: Kind) => (editing ? doc[kind] : doc[kind].filter(isShown));
  return (
    <>
      <rect class="paper" width={width} height={height} fill={color(doc.head.backgroundColor, "#f4f5f6")} />
      {image !== "" && <image href={image} width={width} height={height} preserveAspectRatio="xMidYMid slice" />}
      {items("polylines").map((item) => <Polyline key={item.id} item={item} />)}
      {items("lines").map((item) => <Line key={item.id} item={item} live={editing ? undefined : live} />)}
      {items("images").map((item) => <Picture key={item.id} item={item} />)}
      {items("texts").map((item) => <Text key={item.id} item={item} live={live} />)}
      {live && !editing && <Values doc={doc} live={live} />}
    </>
  );
}

/** A colour as it may stand in an attribute, which must not refer to anything. */
function color(value: unknown, otherwise: string): string {
  return typeof value === "string" && /^(#[0-9a-f]{3,8}|[a-z]+|rgba?\([\d., %]+\))$/i.test(value) ? value : otherwise;
}

const ref = (kind: Kind, item: Item) => ({ "data-kind": kind, "data-id": item.id, class: "object" + (isShown(item) ? "" : " switched-off") });

function Line({ item, live }: { item: Item; live: Live | undefined }): JSX.Element {
  const [a, b] = pointsOf("lines", item) as [{ left: number; top: number }, { left: number; top: number }];
  const ends = { x1: a.left, y1: a.top, x2: b.left, y2: b.top };
  const width = num(item.strokeWidth, 3);
  const v = live && varsOf("lines", item, live.byId)[0];
  const flow = v ? flowOf(live.poll.values.get(v.key), num(item.animation) !== 0, Boolean(item.invertAnimation)) : null;
  const old = live?.poll.failed ? " old" : "";
  return (
    <g {...ref("lines", item)}>
      <line class="reach" {...ends} stroke-width={Math.max(14, width)} />
      <line {...ends} stroke={color(item.stroke, "#5b6670")} stroke-width={width} stroke-linecap="round" />
      {flow && (
        <line
          class={"flow" + old} {...ends} stroke-width={Math.max(1.5, width * 0.45)}
          style={{ animationDuration: flow.seconds + "s", animationDirection: flow.reverse ? "reverse" : "normal" }}
        />
      )}
    </g>
  );
}

function Polyline({ item }: { item: Item }): JSX.Element {
  const points = pointsOf("polylines", item).map((p) => p.left + "," + p.top).join(" ");
  const look = {
    points, stroke: color(item.stroke, "#5b6670"), "stroke-width": num(item.strokeWidth, 2),
    fill: color(item.fill || "none", "none"), "stroke-linejoin": "round" as const,
  };
  return <g {...ref("polylines", item)}>{item.closed ? <polygon {...look} /> : <polyline {...look} />}</g>;
}

function Picture({ item }: { item: Item }): JSX.Element {
  const [failed, setFailed] = useState("");
  const { width, height } = sizeOf("images", item);
  const [left, top] = [num(item.left), num(item.top)];
  const url = text(item.url) || text(item.src);
  const angle = num(item.angle);
  const turn = angle ? `rotate(${angle} ${left + width / 2} ${top + height / 2})` : undefined;
  const name = text(item.title);
  return (
    <g {...ref("images", item)} transform={turn}>
      <title>{name}</title>
      {url === "" || failed === url
        ? <><rect class="no-image" x={left} y={top} width={width} height={height} /><text class="no-image" x={left + width / 2} y={top + height / 2}>{name || "?"}</text></>
        : <image href={url} x={left} y={top} width={width} height={height} onError={() => setFailed(url)} />}
    </g>
  );
}

function Text({ item, live }: { item: Item; live: Live | undefined }): JSX.Element {
  const v = live && varsOf("texts", item, live.byId)[0];
  const shown = v && live.poll.at !== null ? show(live.poll.values.get(v.key), v.varsTs, v.unit) : null;
  return (
    <g {...ref("texts", item)}>
      <text x={num(item.left)} y={num(item.top)} dominant-baseline="text-before-edge" font-size={num(item.fontSize, 16)} fill={color(item.fill, "#1f2428")}>
        {text(item.text)}
        {shown && <tspan class={shown.missing ? "missing" : "bound"}>{" " + shown.text + (shown.unit && " " + shown.unit)}</tspan>}
      </text>
    </g>
  );
}

/** Values of lines at the middle of the longest line that a variable has, of pictures below. */
function Values({ doc, live }: { doc: Doc; live: Live }): JSX.Element {
  const longest = new Map<string, { item: Item; length: number; v: Var }>();
  for (const item of doc.lines.filter(isShown)) {
    const v = varsOf("lines", item, live.byId)[0];
    if (!v) continue;
    const box = boxOf("lines", item);
    const length = Math.hypot(box.right - box.left, box.bottom - box.top) + (box.top === box.bottom ? 1 : 0);
    if (length > (longest.get(v.key)?.length ?? -1)) longest.set(v.key, { item, length, v });
  }
  return (
    <g class={live.poll.failed ? "values old" : "values"}>
      {[...longest.values()].map(({ item, v }) => {
        const box = boxOf("lines", item);
        const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
        const steep = box.bottom - box.top > box.right - box.left;
        return <Tag key={v.key} x={steep ? x + 8 : x} y={steep ? y : y - num(item.strokeWidth, 3) / 2 - 12} start={steep} vars={[v]} live={live} />;
      })}
      {doc.images.filter(isShown).map((item) => {
        const vars = varsOf("images", item, live.byId);
        const box = boxOf("images", item);
        return vars.length > 0 && <Tag key={item.id} x={(box.left + box.right) / 2} y={box.bottom - 7} vars={vars} live={live} />;
      })}
    </g>
  );
}

const rowHeight = 17;

/** A box with values, centred on a point or beginning there; more of them grow upwards. */
function Tag({ x, y, start, vars, live }: { x: number; y: number; start?: boolean; vars: Var[]; live: Live }): JSX.Element {
  const rows = vars.map((v) => {
    const value = live.poll.values.get(v.key);
    const shown = live.poll.at === null ? { text: "…", unit: "", missing: false } : show(value, v.varsTs, v.unit);
    const level = typeof value === "number" ? (live.limits?.get(v.key)?.(value) ?? "") : "";
    return { v, shown, level, line: (level && "▲ ") + shown.text + (shown.unit && " " + shown.unit) };
  });
  const width = Math.max(...rows.map((r) => r.line.length)) * 7.4 + 10;
  const left = start ? x : x - width / 2;
  const top = y - (rows.length - 1) * rowHeight - rowHeight / 2;
  return (
    <g class="tag">
      <rect x={left} y={top} width={width} height={rows.length * rowHeight + 2} rx="3" />
      {rows.map(({ v, shown, level, line }, i) => (
        <text key={v.key} class={shown.missing ? "missing" : level} x={left + width / 2} y={top + (i + 0.5) * rowHeight + 1}>
          <title>{v.name}</title>{line}
        </text>
      ))}
    </g>
  );
}

/** All variables of a diagram, each once. */
export function diagramVars(doc: Doc, byId: ById): Var[] {
  const all = kinds.flatMap((kind) => doc[kind].filter(isShown).flatMap((item) => varsOf(kind, item, byId)));
  return [...new Map(all.map((v) => [v.key, v])).values()];
}

export function altText(doc: Doc): string {
  return t("diagramAlt", { title: text(doc.head.title), count: kinds.reduce((n, kind) => n + doc[kind].length, 0) });
}
