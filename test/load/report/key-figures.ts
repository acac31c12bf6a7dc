// The few figures by which runs are compared.

export interface KeyFigure {
  /** The head of its column. */
  readonly title: string;
  readonly group: string;
  readonly what: string;
}

export const KEY_FIGURES: readonly KeyFigure[] = [
  { title: "commits, /s", group: "sustained", what: "commits" },
  { title: "to raw commits, %", group: "sustained", what: "commits to raw commits" },
  {
    title: "to Postgres saver, ×",
    group: "peers",
    what: "commits of Fleet to those of LangGraph Postgres saver",
  },
  { title: "write p99, ms", group: "write", what: "write, p99" },
  { title: "beside a neighbour, ms", group: "write", what: "write beside a busy neighbour, p99" },
  { title: "last of a burst, worst, ms", group: "burst", what: "last one committed, worst round" },
  { title: "handoffs at once, p99, ms", group: "handoff", what: "requested to accepted, 100 at once, p99" },
  { title: "lapse to offer, p99, ms", group: "recovery", what: "silence timeout to offer, p99" },
];
