// `fleet watch`: a live view of tasks, handoffs, agents and alerts.

import { setTimeout as sleep } from "node:timers/promises";
import { type Command, Option } from "commander";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import { optionDuration } from "../../input/duration.ts";
import { wholeNumber } from "../../input/number.ts";
import type { FleetPicture } from "../../rendering/operations/watch.ts";
import { LiveScreen } from "../../rendering/terminal/live-screen.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { untilInterrupted } from "../../runtime/sigint.ts";

/** More than a terminal shows of each list. */
const ENTRIES = 50;
const INTERVAL_MS = 2_000;
/** In the order of the view: what needs an operator first. */
const OPEN_STATES = ["blocked", "handing_off", "active"] as const;

interface Flags {
  readonly interval: number;
  readonly count?: number;
}

export function addWatch(program: Command, action: ActionFactory): void {
  const command = program
    .command("watch")
    .summary("Watch tasks, handoffs, agents and alerts.")
    .description(
      "Watch open tasks, handoffs and alerts, and agents, in a view that refreshes itself until q or Ctrl-C. Without a terminal the view is printed once.",
    )
    .addOption(
      new Option("-i, --interval <time>", "the time between two views: 500ms, 5s, 1m")
        .argParser(optionDuration)
        .default(INTERVAL_MS, "2s"),
    )
    .option("-n, --count <n>", "end after so many views", wholeNumber(1))
    .action(action(watch));
  withExamples(command, (fleet) => ({
    "Until q": `${fleet} watch`,
    "One view, for a mail or a log": `${fleet} watch --count 1 | cat`,
    "The number of open alerts, ten times": `${fleet} watch --count 10 --json | jq '.alerts | length'`,
  }));
}

async function watch(session: Session, flags: Flags): Promise<void> {
  const client = await session.client();
  const isLive = session.context.stdout.isTTY === true && !session.json;
  let picture = await pictureOf(client, session);
  if (isLive) return live(session, flags, picture);
  const { renderWatch } = await import("../../rendering/operations/watch.ts");
  const { count = 1, interval } = flags;
  for (let shown = 1; ; shown += 1) {
    const frame = { url: session.url ?? "", fleet: session.programName, problem: null };
    session.line(picture, () => renderWatch(picture, frame, session.freshView()).join("\n").trimEnd());
    if (shown === count) return;
    await sleep(interval);
    picture = await pictureOf(client, session);
  }
}

/** An answer that is missing is shown with its age, and the view continues: the fleet may return. */
async function live(
  session: Session,
  { interval, count = Number.POSITIVE_INFINITY }: Flags,
  first: FleetPicture,
) {
  const client = await session.client();
  const { renderWatch } = await import("../../rendering/operations/watch.ts");
  let picture = first;
  let problem: string | null = null;
  const draw = () => {
    const height = session.context.stdout.rows || undefined;
    const help = `q ends; every ${interval / 1_000}s`;
    const frame = { url: session.url ?? "", fleet: session.programName, height, help, problem };
    screen.draw(renderWatch(picture, frame, session.freshView()));
  };
  const screen = new LiveScreen(session.context, draw);
  const ending = new AbortController();
  const { signal } = ending;
  const end = () => ending.abort();
  void screen.quit.then(end);
  void untilInterrupted().then(end);
  try {
    draw();
    for (let shown = 1; shown < count; shown += 1) {
      await sleep(interval, undefined, { signal });
      const answer = await pictureOf(client, session, signal).catch((error: unknown) => error);
      signal.throwIfAborted();
      if (answer instanceof Error) problem = answer.message;
      else [picture, problem] = [answer as FleetPicture, null];
      draw();
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    screen.close();
  }
}

async function pictureOf(
  client: FleetClient,
  { deadline, context }: Session,
  signal?: AbortSignal,
): Promise<FleetPicture> {
  const call = { ...deadline, ...(signal !== undefined && { signal }) };
  const query = { ...call, limit: ENTRIES };
  const [status, alerts, handoffs, agents, ...tasks] = await Promise.all([
    client.admin.status(call),
    client.admin.listAlerts({ ...query, acknowledged: false, resolved: false }),
    client.handoffs(query),
    client.admin.agents(query),
    ...OPEN_STATES.map((state) => client.admin.tasks({ ...query, state })),
  ]);
  return {
    at: new Date(context.now()).toISOString(),
    status,
    alerts: alerts.alerts,
    tasks: tasks.flatMap((page) => page.tasks),
    handoffs: handoffs.handoffs.filter(({ ended_at }) => ended_at === null),
    agents: agents.agents,
    listening_since: agents.listening_since,
  };
}
