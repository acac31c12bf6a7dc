// Ids as a narrow terminal shows them, with "…" in the middle. No id contains that character, so the whole id is looked up
// wherever a command expects one.

import type { Command } from "commander";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { UsageError } from "../runtime/usage.ts";

type Kind = "task" | "checkpoint" | "handoff" | "alert";
type Page = { readonly ids: readonly string[]; readonly cursor?: string | undefined };
type ReadPage = (cursor: string | undefined) => Promise<Page>;

const GAP = "…";
/** The arguments and options that take ids, by their names. */
const KINDS: Readonly<Record<string, Kind>> = {
  task: "task",
  id: "checkpoint",
  parent: "checkpoint",
  child: "checkpoint",
  checkpoint: "checkpoint",
  from: "checkpoint",
  handoff: "handoff",
  alert: "alert",
};
const WHOLE_ID = "Give the whole id; --json has it.";
const PAGES_MAX = 50;
const ELIDED_UUID = /^(?:chk-)?([0-9a-f]{8})…[0-9a-f]+$/;
/** The first digits of a UUIDv7 are its time in units of 65.5 s. */
const TIME_UNIT_MS = 0x10000;
/** A command may have waited in a queue for as long. */
const COMMITTED_WITHIN_MS = [600_000, 86_400_000];
const CLOCK_ERROR_MS = 60_000;

/** The arguments and the options of a call with whole ids. Connects only for an id that is elided. */
export async function withWholeIds(
  command: Command,
  args: readonly unknown[],
  client: () => Promise<FleetClient>,
): Promise<unknown[]> {
  const whole = async (name: string, value: unknown): Promise<unknown> => {
    const kind = KINDS[name];
    if (kind === undefined) return value;
    if (Array.isArray(value)) return Promise.all(value.map((one) => whole(name, one)));
    if (typeof value !== "string" || !value.includes(GAP)) return value;
    return wholeId(kind, value, await client());
  };
  const names = command.registeredArguments.map((argument) => argument.name());
  return Promise.all(
    args.map(async (value, place) => {
      const name = names[place];
      if (name !== undefined) return whole(name, value);
      if (typeof value !== "object" || value === null) return value;
      const options = Object.entries(value).map(async ([key, one]) => [key, await whole(key, one)] as const);
      return Object.fromEntries(await Promise.all(options));
    }),
  );
}

async function wholeId(kind: Kind, text: string, client: FleetClient): Promise<string> {
  // A handoff may be named by its task.
  const meant = kind === "handoff" && !ELIDED_UUID.test(text) ? "task" : kind;
  const [begin = "", ...rest] = text.replace(/^chk-/, "").split(GAP);
  const end = rest.at(-1) ?? "";
  const fits = (id: string): boolean =>
    id.length >= begin.length + end.length && id.startsWith(begin) && id.endsWith(end);
  for (const read of readersOf(meant, text, client)) {
    const found = await matches(read, fits);
    if (found.size > 1) {
      const some = [...found].slice(0, 3).join(", ");
      throw new UsageError(`several ${meant}s have the form ${text}: ${some}`, WHOLE_ID);
    }
    const [id] = found;
    if (id !== undefined) return id;
  }
  throw new FleetError("NOT_FOUND", `no ${meant} has the form ${text}`, {
    details: { [`${meant}_id`]: text },
  });
}

async function matches(read: ReadPage, fits: (id: string) => boolean): Promise<Set<string>> {
  const found = new Set<string>();
  let cursor: string | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const next = await read(cursor);
    for (const id of next.ids.filter(fits)) found.add(id);
    cursor = next.cursor;
    if (cursor === undefined) return found;
  }
  // A part of the list does not prove that an id is the only one.
  throw new UsageError("the list is too long to look up a shortened id", WHOLE_ID);
}

/** The lists in which the id may be, in their order. */
function readersOf(kind: Kind, text: string, client: FleetClient): ReadPage[] {
  switch (kind) {
    case "task":
      return [
        async (cursor) => {
          const page = await client.admin.tasks({ limit: LIMITS.tasks_limit_max, cursor });
          return { ids: page.tasks.map(({ task_id }) => task_id), cursor: page.cursor };
        },
      ];
    case "handoff":
      return [
        async (cursor) => {
          const page = await client.handoffs({ limit: LIMITS.handoffs_limit_max, cursor });
          return { ids: page.handoffs.map(({ handoff_id }) => handoff_id), cursor: page.cursor };
        },
      ];
    case "alert":
      return [
        async (cursor) => {
          const page = await client.admin.listAlerts({ limit: LIMITS.alerts_limit_max, cursor });
          return { ids: page.alerts.map(({ alert }) => alert.id), cursor: page.cursor };
        },
      ];
    case "checkpoint":
      return checkpointReaders(text, client);
  }
}

function checkpointReaders(text: string, client: FleetClient): ReadPage[] {
  const digits = ELIDED_UUID.exec(text)?.[1];
  if (digits === undefined) return [];
  const made = Number.parseInt(digits, 16) * TIME_UNIT_MS;
  const at = (ms: number): string => new Date(ms).toISOString();
  return COMMITTED_WITHIN_MS.map((within) => async (cursor: string | undefined) => {
    const range = { from: at(made - CLOCK_ERROR_MS), to: at(made + TIME_UNIT_MS + within) };
    const page = await client.searchCheckpoints({ ...range, limit: LIMITS.search_limit_max, cursor });
    return { ids: page.checkpoints.map(({ metadata }) => metadata.checkpoint_id), cursor: page.cursor };
  });
}
