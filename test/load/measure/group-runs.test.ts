import { expect, test } from "vitest";
import { type GroupRuns, measureInTurn } from "./group-runs.ts";
import type { Group } from "./table.ts";

const group = (name: string): Group => ({ name, about: "", rows: [] });

function runs(fail: readonly string[], interruptedBy?: string) {
  const measured: string[] = [];
  let stops = 0;
  let isInterrupted = false;
  const run: GroupRuns<string> = {
    async measure(name) {
      measured.push(name);
      if (name === interruptedBy) isInterrupted = true;
      if (fail.includes(name)) throw new Error(`no ${name}`);
      return name === "skipped" ? null : group(name);
    },
    async stopAll() {
      stops += 1;
    },
    isInterrupted: () => isInterrupted,
    log: () => {},
  };
  return { run, measured, stops: () => stops };
}

test("a group that fails is reported, what it started is stopped, and the other groups are measured", async () => {
  const { run, stops } = runs(["second"]);
  const { groups, failures } = await measureInTurn(["first", "second", "skipped", "third"], run);
  expect(groups.map(({ name }) => name)).toEqual(["first", "third"]);
  expect(failures).toEqual([{ group: "second", reason: "no second" }]);
  expect(stops()).toBe(1);
});

test("an interrupted benchmark reports the groups before it and starts no other group", async () => {
  const { run, measured } = runs(["second"], "second");
  const { groups, failures } = await measureInTurn(["first", "second", "third"], run);
  expect(groups.map(({ name }) => name)).toEqual(["first"]);
  expect(failures).toEqual([]);
  expect(measured).toEqual(["first", "second"]);
});
