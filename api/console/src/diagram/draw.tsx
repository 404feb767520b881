// Draws the objects of a diagram. View and editor share it.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { isState, show } from "../format";
import { t } from "../i18n";
import type { Level, Limits } from "../limits";
import type { Poll } from "../poll";
import type { Var } from "../variables";
import { flowOf } from "./flow";
import { beside, boxAt, free, obstacles } from "./layout";
import { boxOf, canvasOf, isShown, kinds, num, pointsOf, sizeOf, text, varsOf, type Box, type ById, type Doc, type Item, type Kind } from "./model";

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
  const once = useMemo(() => remembering(), [editing, live]);
  const items = (kind: Kind, draw: (item: Item) => JSX.Element) => doc[kind].filter((item) => editing || isShown(item)).map((item) => once(item, draw));
  return (
    <>
      <rect class="paper" width={width} height={height} fill={paper(doc)} />
      {image !== "" && <image href={image} width={width} height={height} preserveAspectRatio="xMidYMid slice" />}
      {items("polylines", (item) => <Polyline key={item.id} item={item} />)}
      {items("lines", (item) => <Line key={item.id} item={item} live={editing ? undefined : live} />)}
      {items("images", (item) => <Picture key={item.id} item={item} />)}
      {items("texts", (item) => <Text key={item.id} item={item} live={live} />)}
      {live && !editing && <Values doc={doc} live={live} />}
    </>
  );
}

/**
 * Returns a function that draws each object once. An object that did not change is
 * the same element again, which is not compared: moving one of 500 costs one.
 */
function remembering(): (item: Item, draw: (item: Item) => JSX.Element) => JSX.Element {
  const drawn = new WeakMap<Item, JSX.Element>();
  return (item, draw) => {
    let element = drawn.get(item);
    if (!element) drawn.set(item, (element = draw(item)));
    return element;
  };
}

/** The colour of a diagram's ground. */
export const paper = (doc: Doc) => color(doc.head.backgroundColor, "#f4f5f6");

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

/** Values of lines, at the middle of the longest of those that are one pipe, and of pictures. */
function Values({ doc, live }: { doc: Doc; live: Live }): JSX.Element {
  const taken = obstacles(doc);
  const canvas = canvasOf(doc);
  const tags: JSX.Element[] = [];
  const put = (key: string | number, rows: Row[], place: (width: number, height: number) => Box) => {
    const box = place(Math.max(...rows.map((r) => r.line.length)) * 7.8 + 12, rows.length * rowHeight + 2);
    taken.others.push(box);
    tags.push(<Tag key={key} box={box} rows={rows} />);
  };
  for (const { item, v } of labelledLines(doc, live.byId)) {
    const box = boxOf("lines", item);
    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    const steep = box.bottom - box.top > box.right - box.left;
    const half = num(item.strokeWidth, 3) / 2 + 3;
    put("line" + item.id, [rowOf(v, live)], (width, height) => free(taken, steep
      ? [boxAt(x + half, y - height / 2, width, height), boxAt(x - half - width, y - height / 2, width, height)]
      : [boxAt(x - width / 2, y - half - height, width, height), boxAt(x - width / 2, y + half, width, height)]));
  }
  for (const item of doc.images.filter(isShown)) {
    const rows = varsOf("images", item, live.byId).map((v) => rowOf(v, live));
    if (rows.length > 0) put(item.id, rows, (width, height) => beside(boxOf("images", item), width, height, taken, canvas));
  }
  return <g class={live.poll.failed ? "values old" : "values"}>{tags}</g>;
}

/**
 * The lines that bear their variable's value: of lines with the same variable that meet,
 * which are one pipe, the longest; of equal ones the level one.
 */
export function labelledLines(doc: Doc, byId: ById): { item: Item; v: Var }[] {
  const pipes: { v: Var; ends: string[]; longest: Item; length: number }[] = [];
  for (const item of doc.lines.filter(isShown)) {
    const v = varsOf("lines", item, byId)[0];
    if (!v) continue;
    const box = boxOf("lines", item);
    const length = Math.hypot(box.right - box.left, box.bottom - box.top) + (box.top === box.bottom ? 1 : 0);
    const pipe = { v, ends: pointsOf("lines", item).map((p) => p.left + "," + p.top), longest: item, length };
    for (let i = pipes.length - 1; i >= 0; i--) {
      const other = pipes[i]!;
      if (other.v.key !== v.key || !other.ends.some((end) => pipe.ends.includes(end))) continue;
      if (other.length >= pipe.length) Object.assign(pipe, { longest: other.longest, length: other.length });
      pipe.ends.push(...other.ends);
      pipes.splice(i, 1);
    }
    pipes.push(pipe);
  }
  return pipes.map(({ longest, v }) => ({ item: longest, v }));
}

const rowHeight = 17;

/** A value in a tag. */
interface Row {
  v: Var;
  line: string;
  missing: boolean;
  level: Level;
}

/** A value without a unit bears the first word of its variable's name. */
function rowOf(v: Var, live: Live): Row {
  const value = live.poll.values.get(v.key);
  const shown = live.poll.at === null ? { text: "…", unit: "", missing: false } : show(value, v.varsTs, v.unit);
  const level = typeof value === "number" ? (live.limits?.get(v.key)?.(value) ?? "") : "";
  const name = v.unit || isState(v.varsTs) ? "" : v.name.split(" ")[0] + " ";
  return { v, missing: shown.missing, level, line: (level && "▲ ") + name + shown.text + (shown.unit && " " + shown.unit) };
}

function Tag({ box, rows }: { box: Box; rows: Row[] }): JSX.Element {
  const x = (box.left + box.right) / 2;
  return (
    <g class="tag">
      <rect x={box.left} y={box.top} width={box.right - box.left} height={box.bottom - box.top} rx="3" />
      {rows.map(({ v, missing, level, line }, i) => (
        <text key={v.key} class={missing ? "missing" : level} x={x} y={box.top + (i + 0.5) * rowHeight + 1}>
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
