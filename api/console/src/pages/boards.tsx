import type { JSX } from "preact";
import * as api from "../api";
import { BarBoard, GaugeBoard, LineBoard, ListBoard, PumpBoard, StatesBoard, TankBoard, type BoardProps } from "../boards/boards";
import { t } from "../i18n";
import { every, usePoll } from "../poll";
import type { Chart } from "../types.gen";
import { chartVars } from "../variables";
import { Empty, Freshness, useLoad, When } from "../ui";

/** How a component of the configuration is drawn; others are lists of values. */
const components: Record<string, (props: BoardProps) => JSX.Element> = {
  PumpControl: PumpBoard,
  MultipleBooleanChart: StatesBoard,
  GaugeChart: GaugeBoard,
  LineChart: LineBoard,
  TankChart: TankBoard,
  BarChart: BarBoard,
};

export function Boards(): JSX.Element {
  const loaded = useLoad(api.charts);
  return (
    <>
      <h1 class="hidden">{t("boards")}</h1>
      <When of={loaded}>
        {(charts) => charts.length === 0
          ? <Empty><p>{t("noBoards")}</p><pre>tsmon tenant import SCHEMA charts.json</pre></Empty>
          : <View charts={charts} />}
      </When>
    </>
  );
}

function View({ charts }: { charts: Chart[] }): JSX.Element {
  const poll = usePoll(charts.flatMap(chartVars), every.dashboard);
  return (
    <>
      <div class="tools"><span class="space" /><Freshness poll={poll} /></div>
      <div class={poll.failed ? "boards old" : "boards"}>
        {charts.map((chart) => {
          const Component = components[chart.component ?? ""] ?? ListBoard;
          const width = Number(chart.props?.width);
          const title = chart.props?.title;
          return (
            <section class={"board w" + (width >= 1 && width <= 12 ? Math.round(width) : 6)} key={String(chart.id)}>
              <h2>{typeof title === "string" ? title : (chart.component ?? String(chart.id))}</h2>
              <Component chart={chart} poll={poll} />
            </section>
          );
        })}
      </div>
    </>
  );
}
