import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import * as api from "../api";
import { ago, clock, isState, number, show } from "../format";
import { t } from "../i18n";
import { limitsOf, type Level, type Limits } from "../limits";
import { every, usePoll } from "../poll";
import { go, href } from "../router";
import { hasHistory, search, toVar, type Var } from "../variables";
import { lateSince, rangeOf, Sparkline, useHistory, type Point } from "../sparkline";
import { Empty, Freshness, useLoad, useNow, When } from "../ui";

interface Configured {
  vars: Var[];
  limits: Limits;
}

async function load(): Promise<Configured> {
  // Without charts there are no limits; the values are worth showing anyway.
  const [all, charts] = await Promise.all([api.variables(), api.charts().catch(() => [])]);
  return { vars: all.filter((v) => v.status).map(toVar), limits: limitsOf(charts) };
}

export function Network(): JSX.Element {
  const loaded = useLoad(load);
  return (
    <>
      <h1 class="hidden">{t("network")}</h1>
      <When of={loaded}>
        {(data) => data.vars.length === 0
          ? <Empty><p>{t("noVariables")}</p><pre>tsmon tenant import SCHEMA variables.json</pre></Empty>
          : <Grid {...data} />}
      </When>
    </>
  );
}

function Grid({ vars, limits }: Configured): JSX.Element {
  const [text, setText] = useState("");
  const poll = usePoll(vars, every.dashboard);
  const [late, setLate] = useState<ReadonlyMap<string, number>>(new Map());
  const shown = useMemo(() => search(vars, text), [vars, text]);
  const level = (v: Var): Level => {
    const value = poll.values.get(v.key);
    return (typeof value === "number" && limits.get(v.key)?.(value)) || (late.has(v.key) ? "abnormal" : "");
  };
  const noteLate = (v: Var, since: number | null) => {
    if ((late.get(v.key) ?? null) === since) return;
    setLate((before) => {
      const after = new Map(before);
      if (since === null) after.delete(v.key);
      else after.set(v.key, since);
      return after;
    });
  };
  const wrong = shown.filter((v) => level(v) !== "").sort((a, b) => rank(level(b)) - rank(level(a)));
  const rest = shown.filter((v) => level(v) === "");
  const card = (v: Var) => (
    <Card key={v.key} v={v} value={poll.values.get(v.key)} level={level(v)} polled={poll.at} late={late.get(v.key) ?? null} noteLate={noteLate} />
  );
  return (
    <>
      <div class="tools">
        <label class="search">
          <span class="hidden">{t("search")}</span>
          <input
            type="search" data-search placeholder={t("searchVariables", { count: vars.length })} value={text}
            onInput={(e) => setText(e.currentTarget.value)} onKeyDown={(e) => e.key === "Escape" && e.currentTarget.blur()}
          />
        </label>
        <Freshness poll={poll} />
      </div>
      {wrong.length > 0 && <section aria-label={t("abnormal")}><ul class={grid(poll.failed)}>{wrong.map(card)}</ul></section>}
      <ul class={grid(poll.failed)}>{rest.map(card)}</ul>
      {shown.length === 0 && <p class="state" role="status">{t("noMatch")}</p>}
    </>
  );
}

const rank = (level: Level) => ["", "abnormal", "severe"].indexOf(level);
const grid = (failed: unknown) => (failed ? "cards old" : "cards");

interface CardProps {
  v: Var;
  value: number | null | undefined;
  level: Level;
  polled: number | null;
  late: number | null;
  noteLate: (v: Var, since: number | null) => void;
}

function Card({ v, value, level, polled, late, noteLate }: CardProps): JSX.Element {
  const { ref, points } = useHistory(v);
  const now = useNow(30_000);
  const since = points && lateSince(points, now);
  useEffect(() => {
    if (points) noteLate(v, since);
  }, [points !== null, since]);
  const shown = show(value, v.varsTs, v.unit);
  const open = () => hasHistory(v) && go("charts", { v: String(v.id), p: "24h" });
  return (
    <li ref={ref as { current: HTMLLIElement | null }} class={"card " + level} onClick={open}>
      <h2>{hasHistory(v) ? <a href={href("charts", { v: String(v.id), p: "24h" })}>{v.name}</a> : v.name}</h2>
      <p class="value">
        {value === undefined && polled === null
          ? <span class="dim">…</span>
          : <span class={shown.missing ? "missing" : "number"}>{shown.text}</span>}
        {shown.unit && <span class="unit"> {shown.unit}</span>}
      </p>
      <Footer points={points} level={level} late={late} v={v} value={value} now={now} />
    </li>
  );
}

interface FooterProps {
  points: Point[] | null;
  level: Level;
  late: number | null;
  v: Var;
  value: number | null | undefined;
  now: number;
}

function Footer({ points, level, late, v, value, now }: FooterProps): JSX.Element {
  // The value is newer than its history.
  const [low, high] = rangeOf([...(points ?? []), ...(typeof value === "number" ? [[now, value] as Point] : [])]);
  return (
    <>
      {points && points.length > 1 ? <Sparkline points={points} name={v.name} /> : <div class="sparkline" />}
      <p class="foot">
        {late !== null
          ? <span class="flag">▲ {t("lastMeasured", { time: clock(late), age: ago(late, now) })}</span>
          : level !== "" && <span class="flag">▲ {t("outOfLimits")}</span>}
        {late === null && level === "" && points && points.length > 0 && !isState(v.varsTs) && <span>{number(low)} – {number(high)}</span>}
        {v.calc && level === "" && <span>{t("computed")}</span>}
      </p>
    </>
  );
}
