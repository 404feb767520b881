// Changes to a diagram, as functions from one state to the next.

import { boxOf, find, kinds, pointsOf, sameRef, withPoints, type Doc, type Item, type Kind, type Point, type Ref } from "../diagram/model";

let lastNew = 0;

/** An id for an object that is not saved yet: unique and below zero. */
export const newId = (): number => --lastNew;

/** Lets the ids of new objects go on below those of a diagram. */
export function continueIds(doc: Doc): void {
  lastNew = Math.min(lastNew, ...kinds.flatMap((kind) => doc[kind].map((item) => item.id)));
}

export function replace(doc: Doc, ref: Ref, change: (item: Item) => Item): Doc {
  return { ...doc, [ref.kind]: doc[ref.kind].map((item) => (item.id === ref.id ? change(item) : item)) };
}

export function set(doc: Doc, ref: Ref, members: Record<string, unknown>): Doc {
  return replace(doc, ref, (item) => ({ ...item, ...members }));
}

export function setHead(doc: Doc, members: Record<string, unknown>): Doc {
  return { ...doc, head: { ...doc.head, ...members } };
}

export function move(doc: Doc, refs: Ref[], dx: number, dy: number): Doc {
  if (dx === 0 && dy === 0) return doc;
  const shift = (p: Point): Point => ({ left: p.left + dx, top: p.top + dy });
  return refs.reduce((d, ref) => replace(d, ref, (item) => withPoints(ref.kind, item, pointsOf(ref.kind, item).map(shift))), doc);
}

/** Moves one corner of a line or polyline. */
export function movePoint(doc: Doc, ref: Ref, index: number, to: Point): Doc {
  return replace(doc, ref, (item) => withPoints(ref.kind, item, pointsOf(ref.kind, item).map((p, i) => (i === index ? to : p))));
}

export function remove(doc: Doc, refs: Ref[]): Doc {
  return refs.reduce((d, ref) => ({ ...d, [ref.kind]: d[ref.kind].filter((item) => item.id !== ref.id) }), doc);
}

export function add(doc: Doc, kind: Kind, members: Record<string, unknown>): { doc: Doc; ref: Ref } {
  const item: Item = { id: newId(), status: 1, ...members };
  return { doc: { ...doc, [kind]: [...doc[kind], item] }, ref: { kind, id: item.id } };
}

/** Copies objects beside themselves. */
export function duplicate(doc: Doc, refs: Ref[]): { doc: Doc; refs: Ref[] } {
  let result = doc;
  const copies = refs.flatMap((ref) => {
    const item = find(doc, ref);
    if (!item) return [];
    const { id: _, ...members } = item;
    const added = add(result, ref.kind, members);
    result = added.doc;
    return [added.ref];
  });
  return { doc: move(result, copies, 20, 20), refs: copies };
}

/** New objects as the tools draw them. */
export const fresh = {
  line: (start: Point, end: Point) => ({ points: { start, end }, stroke: "#5b6670", strokeWidth: 5, animation: 1, invertAnimation: false }),
  polyline: (points: Point[]) => ({ points, stroke: "#5b6670", strokeWidth: 2, fill: "", closed: false }),
  text: (at: Point, words: string) => ({ ...at, text: words, fontSize: 16, fill: "#1f2428" }),
  image: (at: Point) => ({ ...at, title: "", url: "img/tanque.svg", width: 80, height: 80, angle: 0, variables: [] }),
};

/** Distance between the lines of the grid. */
export const grid = 10;

/** How near a corner has to be to attract another one. */
const near = 9;

/** The place that a point snaps to: a corner of another line, else the grid. */
export function snap(doc: Doc, p: Point, except: Ref[] = []): Point {
  for (const kind of ["lines", "polylines"] as const) {
    for (const item of doc[kind]) {
      if (except.some((ref) => sameRef(ref, { kind, id: item.id }))) continue;
      const found = pointsOf(kind, item).find((q) => Math.hypot(q.left - p.left, q.top - p.top) <= near);
      if (found) return { left: found.left, top: found.top };
    }
  }
  return { left: Math.round(p.left / grid) * grid, top: Math.round(p.top / grid) * grid };
}

/** The way that a move of objects goes so that the first one stays on the grid. */
export function snapMove(doc: Doc, refs: Ref[], dx: number, dy: number): Point {
  const item = refs[0] && find(doc, refs[0]);
  if (!item) return { left: dx, top: dy };
  const box = boxOf(refs[0]!.kind, item);
  return {
    left: Math.round((box.left + dx) / grid) * grid - box.left,
    top: Math.round((box.top + dy) / grid) * grid - box.top,
  };
}
