import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { find, num, pointsOf, text, varsOf, withPoints, type ById, type Doc, type Item, type Kind, type Ref } from "../diagram/model";
import { t, type Key } from "../i18n";
import { Picker } from "../picker";
import type { Var } from "../variables";
import { label } from "./bar";
import { replace, set, setHead } from "./operations";
import { Upload } from "./upload";

interface PropertiesProps {
  doc: Doc;
  chosen: Ref[];
  vars: Var[];
  byId: ById;
  /** Takes the next state; those with the same topic are one step to undo. */
  commit: (doc: Doc, topic?: string) => void;
  remove: () => void;
}

export function Properties({ doc, chosen, vars, byId, commit, remove }: PropertiesProps): JSX.Element {
  const ref = chosen[0];
  return (
    <aside class="properties" aria-label={t("properties")}>
      {chosen.length === 0 || !ref ? <DiagramFields doc={doc} commit={commit} />
        : chosen.length > 1 ? <><h2>{t("chosenCount", { count: chosen.length })}</h2><p class="dim">{t("chosenHint")}</p></>
          : <ObjectFields key={ref.kind + ref.id} doc={doc} of={ref} vars={vars} byId={byId} commit={commit} />}
      {chosen.length > 0 && <button type="button" class="delete" onClick={remove}><span aria-hidden="true">✕</span> {t("delete")}</button>}
    </aside>
  );
}

interface FieldProps {
  label: string;
  value: string | number;
  type?: "text" | "number" | "color" | "url";
  put: (value: string) => void;
  /** The field of a text's words, which a new text is typed into. */
  words?: boolean;
}

/** Counts the visits to fields: what is typed in one is one step to undo. */
let visits = 0;

/** The members whose fields take effect with each key. */
const typedMembers = ["title", "text", "stroke", "fill", "backgroundColor"];

/** The step that a change of these members belongs to. */
const topicOf = (of: string, members: Record<string, unknown>) => {
  const names = Object.keys(members);
  return names.every((name) => typedMembers.includes(name)) ? [visits, of, ...names].join(" ") : undefined;
};

/** Lets a field that is being filled in take effect, as if it were left. */
export function takeTyped(): void {
  const field = document.activeElement;
  if (field instanceof HTMLInputElement && field.dataset.typed === "true") field.dispatchEvent(new Event("change", { bubbles: true }));
}

/**
 * A field. Words and colours take effect with each key; numbers and addresses, which
 * would be wrong halfway, when the field is left, Enter is pressed or the diagram saved.
 */
function Field({ label, value, type = "text", put, words }: FieldProps): JSX.Element {
  const [typed, setTyped] = useState<string | null>(null);
  const live = type === "text" || type === "color";
  const taken = (text: string) => {
    setTyped(null);
    if (text !== String(value)) put(text);
  };
  return (
    <label>
      {label}
      <input
        type={(type === "url" ? "text" : type) as "text"} value={typed ?? value} step={type === "number" ? "any" : undefined} spellcheck={false}
        data-typed={typed !== null} data-words={words} onFocus={() => visits++}
        onInput={(e) => (live ? put : setTyped)(e.currentTarget.value)} onChange={live ? undefined : (e) => taken(e.currentTarget.value)}
      />
    </label>
  );
}

function Check({ label, value, put }: { label: string; value: boolean; put: (value: boolean) => void }): JSX.Element {
  return <label class="check"><input type="checkbox" checked={value} onChange={(e) => put(e.currentTarget.checked)} /> {label}</label>;
}

function DiagramFields({ doc, commit }: Pick<PropertiesProps, "doc" | "commit">): JSX.Element {
  const head = doc.head;
  const put = (members: Record<string, unknown>) => commit(setHead(doc, members), topicOf("", members));
  return (
    <>
      <h2>{t("diagram")}</h2>
      <Field label={t("title")} value={text(head.title)} put={(title) => put({ title })} />
      <Field label={t("backgroundColor")} type="color" value={text(head.backgroundColor, "#f4f5f6")} put={(backgroundColor) => put({ backgroundColor })} />
      <Field label={t("backgroundImg")} type="url" value={text(head.backgroundImg)} put={(backgroundImg) => put({ backgroundImg })} />
      <Field label={t("width")} type="number" value={num(head.width, 1280)} put={(v) => put({ width: positive(v, 1280) })} />
      <Field label={t("height")} type="number" value={num(head.height, 720)} put={(v) => put({ height: positive(v, 720) })} />
    </>
  );
}

const positive = (value: string, otherwise: number) => (Number(value) > 0 ? Number(value) : otherwise);

interface ObjectProps extends Pick<PropertiesProps, "doc" | "vars" | "byId" | "commit"> {
  of: Ref;
}

function ObjectFields({ doc, of, vars, byId, commit }: ObjectProps): JSX.Element | null {
  const item = find(doc, of);
  if (!item) return null;
  const put = (members: Record<string, unknown>) => commit(set(doc, of, members), topicOf(of.kind + of.id, members));
  return (
    <>
      <h2>{label(doc, of)}</h2>
      {fieldsOf[of.kind](item, put)}
      <Place kind={of.kind} item={item} change={(change) => commit(replace(doc, of, change))} />
      {of.kind !== "polylines" && <Binding kind={of.kind} item={item} vars={vars} byId={byId} put={put} />}
      <Check label={t("shown")} value={num(item.status, 1) !== 0} put={(v) => put({ status: v ? 1 : 0 })} />
    </>
  );
}

type Put = (members: Record<string, unknown>) => void;

/** The members that each kind of object has of its own. */
const fieldsOf: Record<Kind, (item: Item, put: Put) => JSX.Element> = {
  lines: (item, put) => (
    <>
      <Field label={t("color")} type="color" value={text(item.stroke, "#5b6670")} put={(stroke) => put({ stroke })} />
      <Field label={t("thickness")} type="number" value={num(item.strokeWidth, 3)} put={(v) => put({ strokeWidth: positive(v, 3) })} />
      <Check label={t("flow")} value={num(item.animation) !== 0} put={(v) => put({ animation: v ? 1 : 0 })} />
      <Check label={t("invertFlow")} value={Boolean(item.invertAnimation)} put={(invertAnimation) => put({ invertAnimation })} />
    </>
  ),
  polylines: (item, put) => (
    <>
      <Field label={t("color")} type="color" value={text(item.stroke, "#5b6670")} put={(stroke) => put({ stroke })} />
      <Field label={t("thickness")} type="number" value={num(item.strokeWidth, 2)} put={(v) => put({ strokeWidth: positive(v, 2) })} />
      <Check label={t("closed")} value={Boolean(item.closed)} put={(closed) => put({ closed })} />
      <Check label={t("filled")} value={text(item.fill) !== ""} put={(v) => put({ fill: v ? "#dcdfe2" : "" })} />
      {text(item.fill) !== "" && <Field label={t("fill")} type="color" value={text(item.fill)} put={(fill) => put({ fill })} />}
    </>
  ),
  texts: (item, put) => (
    <>
      <Field label={t("toolText")} value={text(item.text)} put={(v) => put({ text: v })} words />
      <Field label={t("fontSize")} type="number" value={num(item.fontSize, 16)} put={(v) => put({ fontSize: positive(v, 16) })} />
      <Field label={t("color")} type="color" value={text(item.fill, "#1f2428")} put={(fill) => put({ fill })} />
    </>
  ),
  images: (item, put) => (
    <>
      <Field label={t("title")} value={text(item.title)} put={(title) => put({ title })} />
      <Symbols value={text(item.url)} put={(url) => put({ url })} />
      <Field label={t("address")} type="url" value={text(item.url)} put={(url) => put({ url })} />
      <Upload done={(url) => put({ url })} />
      <Field label={t("width")} type="number" value={num(item.width, 80)} put={(v) => put({ width: positive(v, 80) })} />
      <Field label={t("height")} type="number" value={num(item.height, 80)} put={(v) => put({ height: positive(v, 80) })} />
      <Field label={t("angle")} type="number" value={num(item.angle)} put={(v) => put({ angle: num(v) })} />
    </>
  ),
};

/** The symbols that the console has itself. */
const symbols: [file: string, name: Key][] = [
  ["tanque", "symbolTank"], ["bomba", "symbolPump"], ["valvula", "symbolValve"], ["embalse", "symbolReservoir"],
  ["estacion", "symbolStation"], ["medidor", "symbolMeter"], ["manometro", "symbolGauge"], ["dosificador", "symbolDoser"],
  ["calidad", "symbolSensor"], ["zona", "symbolZone"], ["tablero", "symbolPanel"],
];

function Symbols({ value, put }: { value: string; put: (url: string) => void }): JSX.Element {
  return (
    <label>
      {t("symbol")}
      <select value={value} onChange={(e) => e.currentTarget.value && put(e.currentTarget.value)}>
        <option value="">{t("symbolOther")}</option>
        {symbols.map(([file, name]) => <option key={file} value={`img/${file}.svg`} selected={value === `img/${file}.svg`}>{t(name)}</option>)}
      </select>
    </label>
  );
}

/** The corners as numbers, so that objects can be placed without a mouse. */
function Place({ kind, item, change }: { kind: Kind; item: Item; change: (change: (item: Item) => Item) => void }): JSX.Element {
  const points = pointsOf(kind, item);
  const put = (index: number, part: "left" | "top", value: string) =>
    change((x) => withPoints(kind, x, points.map((p, i) => (i === index ? { ...p, [part]: num(value) } : p))));
  return (
    <fieldset>
      <legend>{t("place")}</legend>
      {points.slice(0, 12).map((p, i) => (
        <div class="pair" key={i}>
          <Field label={"x" + (points.length > 1 ? i + 1 : "")} type="number" value={p.left} put={(v) => put(i, "left", v)} />
          <Field label={"y" + (points.length > 1 ? i + 1 : "")} type="number" value={p.top} put={(v) => put(i, "top", v)} />
        </div>
      ))}
    </fieldset>
  );
}

interface BindingProps {
  kind: Kind;
  item: Item;
  vars: Var[];
  byId: ById;
  put: Put;
}

/** Lines and texts show one variable, pictures several. */
function Binding({ kind, item, vars, byId, put }: BindingProps): JSX.Element {
  const bound = varsOf(kind, item, byId);
  if (kind === "images") {
    const listed = Array.isArray(item.variables) ? (item.variables as unknown[]) : [];
    const add = ({ id, name, unit, calc, equation, varsTs }: Var) =>
      put({ variables: [...listed, { id, name, unit: unit || null, ...(calc && { calc, equation }), varsTs }] });
    return (
      <>
        <ul class="bound">
          {bound.map((v, i) => (
            <li key={v.key}>
              {v.name}
              <button type="button" class="quiet" aria-label={t("remove", { name: v.name })} onClick={() => put({ variables: listed.filter((_, j) => j !== i) })}>✕</button>
            </li>
          ))}
        </ul>
        <Picker label={t("addVariable")} from={vars} pick={add} />
      </>
    );
  }
  return (
    <>
      <Picker label={t("variable")} from={vars} value={bound[0]?.name ?? ""} pick={(v) => put({ id_tsvars: v.id, variable: undefined })} />
      {bound.length > 0 && <button type="button" class="quiet" onClick={() => put({ id_tsvars: null, variable: undefined })}>{t("unbind")}</button>}
    </>
  );
}
