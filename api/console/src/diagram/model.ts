// Diagrams as they are drawn and edited. Members that the console does not know
// are kept as they came.

import type { ReadDiagram } from "../api";
import type { DiagramToSave, VarsTs } from "../types.gen";
import { toVar, type Var } from "../variables";

export const kinds = ["lines", "images", "texts", "polylines"] as const;
export type Kind = (typeof kinds)[number];

/** An object of a diagram. New ones have ids below zero until they are saved. */
export interface Item {
  id: number;
  [member: string]: unknown;
}

export interface Ref {
  kind: Kind;
  id: number;
}

export type Doc = { head: Record<string, unknown> } & Record<Kind, readonly Item[]>;

export interface Point {
  left: number;
  top: number;
}

export function toDoc(d: ReadDiagram): Doc {
  const { lines, images, texts, polylines, ...head } = d as ReadDiagram & Record<Kind, Item[]>;
  return { head, lines, images, texts, polylines };
}

export function emptyDoc(title: string): Doc {
  const head = { title, status: 1, backgroundColor: "#f4f5f6", backgroundImg: "", width: 1280, height: 720 };
  return { head, lines: [], images: [], texts: [], polylines: [] };
}

export const sameRef = (a: Ref, b: Ref) => a.kind === b.kind && a.id === b.id;

export function find(doc: Doc, ref: Ref): Item | undefined {
  return doc[ref.kind].find((item) => item.id === ref.id);
}

export function allRefs(doc: Doc): Ref[] {
  return kinds.flatMap((kind) => doc[kind].map((item) => ({ kind, id: item.id })));
}

const num = (value: unknown, otherwise = 0) => (Number.isFinite(Number(value ?? NaN)) ? Number(value) : otherwise);
export const text = (value: unknown, otherwise = "") => (typeof value === "string" ? value : otherwise);
export { num };

const point = (value: unknown): Point => {
  const p = (value ?? {}) as Partial<Point>;
  return { left: num(p.left), top: num(p.top) };
};

/** The corners of a line or polyline, or the upper left one of another object. */
export function pointsOf(kind: Kind, item: Item): Point[] {
  if (kind === "lines") {
    const ends = (item.points ?? {}) as { start?: unknown; end?: unknown };
    return [point(ends.start), point(ends.end)];
  }
  if (kind === "polylines") return Array.isArray(item.points) ? item.points.map(point) : [];
  return [point(item)];
}

export function withPoints(kind: Kind, item: Item, points: Point[]): Item {
  if (kind === "lines") return { ...item, points: { ...(item.points as object), start: points[0], end: points[1] } };
  if (kind === "polylines") return { ...item, points };
  return { ...item, left: points[0]!.left, top: points[0]!.top };
}

/** The size that an object has on the canvas. */
export function sizeOf(kind: Kind, item: Item): { width: number; height: number } {
  if (kind === "images") return { width: num(item.width, 80), height: num(item.height, 80) };
  if (kind === "texts") {
    const size = num(item.fontSize, 16);
    return { width: Math.max(1, text(item.text).length) * size * 0.55, height: size * 1.25 };
  }
  return { width: 0, height: 0 };
}

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export function boxOf(kind: Kind, item: Item): Box {
  const points = pointsOf(kind, item);
  const { width, height } = sizeOf(kind, item);
  const lefts = points.map((p) => p.left);
  const tops = points.map((p) => p.top);
  return { left: Math.min(...lefts), top: Math.min(...tops), right: Math.max(...lefts) + width, bottom: Math.max(...tops) + height };
}

/** The part of the canvas that is shown: its own size, else all objects. */
export function canvasOf(doc: Doc): { width: number; height: number } {
  const width = num(doc.head.width);
  const height = num(doc.head.height);
  if (width > 0 && height > 0) return { width, height };
  const boxes = allRefs(doc).map((ref) => boxOf(ref.kind, find(doc, ref)!));
  return {
    width: Math.max(640, ...boxes.map((b) => b.right + 40)),
    height: Math.max(360, ...boxes.map((b) => b.bottom + 40)),
  };
}

/** An object whose status is 0 is switched off. */
export const isShown = (item: Item) => item.status === undefined || num(item.status, 1) !== 0;

/** Variables of the tenant by their ids. */
export type ById = Map<string, Var>;

/** The variables that an object shows. */
export function varsOf(kind: Kind, item: Item, byId: ById): Var[] {
  const listed = Array.isArray(item.variables) ? item.variables : [];
  const own = listed.filter((v): v is { varsTs: VarsTs } => typeof v?.varsTs === "object" && v.varsTs !== null).map(toVar);
  const id = item.id_tsvars;
  const known = id === undefined || id === null ? undefined : byId.get(String(id));
  const bound = (item.variable ?? null) as { name: string; unit: string | null; varsTs: VarsTs } | null;
  if (known) return [known, ...own];
  return bound && kind === "lines" ? [toVar({ ...bound, id: id as string }), ...own] : own;
}

/** What has to be saved to turn one state of a diagram into another. */
export function changes(before: Doc | null, now: Doc): DiagramToSave {
  const body = { diagram: now.head, lines: [], images: [], texts: [], polylines: [], deleted: {} } as DiagramToSave & Record<Kind, unknown[]>;
  for (const kind of kinds) {
    const old = new Map(before?.[kind].map((item) => [item.id, item]));
    body[kind] = now[kind].filter((item) => !alike(kind, old.get(item.id), item)).map((item) => toSave(kind, item));
    const kept = new Set(now[kind].map((item) => item.id));
    body.deleted![kind] = [...old.keys()].filter((id) => id > 0 && !kept.has(id));
  }
  return body;
}

function toSave(kind: Kind, item: Item): Record<string, unknown> {
  const { id, ...rest } = item;
  if (kind === "lines") delete rest.variable; // the server derives it from id_tsvars
  return id > 0 ? { id, ...rest } : rest;
}

/** What is saved of an object, as a text to compare. */
export const saves = (kind: Kind, item: Item): string => JSON.stringify(sorted(toSave(kind, item)));

/** The value with the members of its objects in one order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).filter(([, v]) => v !== undefined).sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, v]) => [k, sorted(v)]));
}

const alike = (kind: Kind, a: Item | undefined, b: Item) => a === b || (a !== undefined && saves(kind, a) === saves(kind, b));

/** The objects that two states of a diagram differ in. */
export function differing(a: Doc, b: Doc): Ref[] {
  return kinds.flatMap((kind) => {
    const other = new Map(a[kind].map((item) => [item.id, item]));
    const now = new Set(b[kind].map((item) => item.id));
    const changed = b[kind].filter((item) => !alike(kind, other.get(item.id), item));
    return [...changed, ...a[kind].filter((item) => !now.has(item.id))].map((item) => ({ kind, id: item.id }));
  });
}

/** The settings that two states of a diagram differ in, but for its version. */
export function settings(a: Doc, b: Doc): string[] {
  const names = new Set([...Object.keys(a.head), ...Object.keys(b.head)]);
  return [...names].filter((name) => name !== "version" && JSON.stringify(a.head[name]) !== JSON.stringify(b.head[name]));
}

/** Whether two states of a diagram differ in what is saved. */
export const differ = (a: Doc, b: Doc): boolean => a !== b && (settings(a, b).length > 0 || differing(a, b).length > 0);
