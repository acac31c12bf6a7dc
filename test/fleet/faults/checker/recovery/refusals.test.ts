/** Entries that a superseded agent or a handoff leaves in the trail of a recovery. */
import { describe, expect, test } from "vitest";
import { judge } from "../checker.ts";
import { ScriptedRecoveries } from "./scripted-recoveries.ts";

const violations = (history: ScriptedRecoveries) => judge(history.evidence()).violations;

describe("a correct fleet", () => {
  test("counts a refused command of a superseded agent as no sign of life", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    history.refuseAndFallSilent();
    history.recover("b", 2);
    expect(violations(history).map(({ kind }) => kind)).not.toContain("false_recovery");
  });

  test("blocks a task whose recovery was resumed, because of its handoff", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    history.fallSilent();
    history.recover("b", 1);
    const id = history.handOff({ agent: "b" });
    history.offer(id);
    history.escalate(id, "no_agent");
    const texts = violations(history).map(({ text }) => text);
    expect(texts.filter((text) => text.includes("does not continue"))).toEqual([]);
  });
});
