import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { Drawing } from "../diagram/draw";
import { boxOf, canvasOf, find, kinds, pointsOf, sameRef, type ById, type Doc, type Kind, type Point, type Ref } from "../diagram/model";
import { t } from "../i18n";
import type { Tool } from "./keys";
import { add, fresh, grid, move, movePoint, set, snap, snapMove } from "./operations";

interface CanvasProps {
  doc: Doc;
  byId: ById;
  tool: Tool;
  chosen: Ref[];
  choose: (refs: Ref[]) => void;
  commit: (doc: Doc) => void;
  /** Is called when a tool has drawn what it draws. */
  done: (kind: Kind) => void;
}

/** What the pointer holds. What it would change is drawn and not committed yet. */
type Grip =
  | { kind: "objects"; from: Point; refs: Ref[] }
  | { kind: "corner"; ref: Ref; index: number }
  | { kind: "size"; ref: Ref }
  | { kind: "line"; start: Point }
  | { kind: "text"; at: Point };

export function Canvas(props: CanvasProps): JSX.Element {
  const { doc, tool, chosen } = props;
  const svg = useRef<SVGSVGElement>(null);
  const [grip, setGrip] = useState<Grip | null>(null);
  const [draft, setDraft] = useState<Doc | null>(null);
  const [corners, setCorners] = useState<Point[]>([]);
  const { width, height } = canvasOf(doc);
  const drawn = draft ?? doc;
  const finish = (kind: Kind, members: Record<string, unknown>) => {
    const added = add(doc, kind, members);
    props.commit(added.doc);
    props.choose([added.ref]);
    setCorners([]);
    props.done(kind);
  };
  const endPolyline = () => corners.length > 1 && finish("polylines", fresh.polyline(corners));
  const down = (e: PointerEvent) => {
    if (e.button !== 0) return;
    const at = toCanvas(svg.current!, e);
    const to = e.altKey ? at : snap(doc, at);
    svg.current!.setPointerCapture(e.pointerId);
    svg.current!.focus({ preventScroll: true });
    if (tool === "select") setGrip(grasp(e, at, props));
    else if (tool === "line") setGrip({ kind: "line", start: to });
    else if (tool === "polyline") setCorners([...corners, to]);
    else if (tool === "text") setGrip({ kind: "text", at: to }); // its field gets the focus, which a pointer that goes down takes
    else finish("images", fresh.image(to));
  };
  const moved = (e: PointerEvent) => {
    if (grip) setDraft(drag(doc, grip, toCanvas(svg.current!, e), e.altKey));
  };
  const up = (e: PointerEvent) => {
    if (grip?.kind === "line") {
      const end = e.altKey ? toCanvas(svg.current!, e) : snap(doc, toCanvas(svg.current!, e));
      if (Math.hypot(end.left - grip.start.left, end.top - grip.start.top) >= grid) finish("lines", fresh.line(grip.start, end));
    } else if (grip?.kind === "text") finish("texts", fresh.text(grip.at, t("toolText")));
    else if (draft) props.commit(draft);
    setGrip(null);
    setDraft(null);
  };
  const pressed = (e: KeyboardEvent) => {
    if (e.key !== "Enter" || tool === "select") return;
    e.preventDefault();
    const centre = { left: Math.round(width / 20) * 10, top: Math.round(height / 20) * 10 };
    const right = { left: centre.left + 100, top: centre.top };
    if (tool === "line") finish("lines", fresh.line(centre, right));
    else if (tool === "polyline") finish("polylines", fresh.polyline(corners.length > 1 ? corners : [centre, right]));
    else finish(tool === "text" ? "texts" : "images", tool === "text" ? fresh.text(centre, t("toolText")) : fresh.image(centre));
  };
  return (
    <svg
      ref={svg} class={"canvas diagram tool-" + tool} viewBox={`0 0 ${width} ${height}`} tabindex={0} role="application" aria-label={t("canvasLabel")} aria-describedby="drawing-hint"
      onPointerDown={down} onPointerMove={moved} onPointerUp={up} onDblClick={endPolyline} onKeyDown={pressed}
    >
      <Still doc={drawn} byId={props.byId} />
      {corners.length > 0 && <polyline class="sketch" points={corners.map((p) => p.left + "," + p.top).join(" ")} />}
      {chosen.map((ref) => <Handles key={ref.kind + ref.id} doc={drawn} refTo={ref} alone={chosen.length === 1} />)}
    </svg>
  );
}

/** The drawing without values. */
function Still({ doc, byId }: { doc: Doc; byId: ById }): JSX.Element {
  const live = useMemo(() => ({ byId, poll: { values: new Map(), at: null, failed: null } }), [byId]);
  return useMemo(() => <Drawing doc={doc} editing live={live} />, [doc, live]);
}

function toCanvas(svg: SVGSVGElement, e: MouseEvent): Point {
  const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM()!.inverse());
  return { left: Math.round(p.x * 10) / 10, top: Math.round(p.y * 10) / 10 };
}

/** Takes hold of a handle or an object, and chooses the object. */
function grasp(e: PointerEvent, at: Point, { chosen, choose }: CanvasProps): Grip | null {
  const element = e.target as Element;
  const handle = element.closest<SVGElement>("[data-corner]");
  const first = chosen[0];
  if (handle && first) {
    const corner = handle.dataset.corner!;
    return corner === "size" ? { kind: "size", ref: first } : { kind: "corner", ref: first, index: Number(corner) };
  }
  const object = element.closest<SVGElement>("[data-kind]");
  if (!object) {
    choose([]);
    return null;
  }
  const kind = kinds.find((k) => k === object.dataset.kind)!;
  const ref: Ref = { kind, id: Number(object.dataset.id) };
  const was = chosen.some((r) => sameRef(r, ref));
  const refs = e.shiftKey ? (was ? chosen.filter((r) => !sameRef(r, ref)) : [...chosen, ref]) : was ? chosen : [ref];
  choose(refs);
  return { kind: "objects", from: at, refs };
}

/** The diagram while the pointer is at a place. */
function drag(doc: Doc, grip: Grip, at: Point, free: boolean): Doc {
  switch (grip.kind) {
    case "objects": {
      const [dx, dy] = [at.left - grip.from.left, at.top - grip.from.top];
      const by = free ? { left: dx, top: dy } : snapMove(doc, grip.refs, dx, dy);
      return Math.hypot(dx, dy) < 3 ? doc : move(doc, grip.refs, by.left, by.top);
    }
    case "corner":
      return movePoint(doc, grip.ref, grip.index, free ? at : snap(doc, at, [grip.ref]));
    case "size": {
      const item = find(doc, grip.ref);
      if (!item) return doc;
      const box = boxOf(grip.ref.kind, item);
      const to = free ? at : snap(doc, at, [grip.ref]);
      return set(doc, grip.ref, { width: Math.max(grid, to.left - box.left), height: Math.max(grid, to.top - box.top) });
    }
    case "line":
      return add(doc, "lines", fresh.line(grip.start, free ? at : snap(doc, at))).doc;
    case "text":
      return doc;
  }
}

/** The frame of a chosen object, and the corners that can be moved. */
function Handles({ doc, refTo, alone }: { doc: Doc; refTo: Ref; alone: boolean }): JSX.Element | null {
  const item = find(doc, refTo);
  if (!item) return null;
  const box = boxOf(refTo.kind, item);
  const corners = refTo.kind === "lines" || refTo.kind === "polylines" ? pointsOf(refTo.kind, item) : [];
  return (
    <g class="handles">
      <rect class="frame" x={box.left - 6} y={box.top - 6} width={box.right - box.left + 12} height={box.bottom - box.top + 12} />
      {alone && corners.map((p, i) => <circle key={i} data-corner={i} cx={p.left} cy={p.top} r="7" />)}
      {alone && refTo.kind === "images" && <rect data-corner="size" x={box.right - 6} y={box.bottom - 6} width="12" height="12" />}
    </g>
  );
}
