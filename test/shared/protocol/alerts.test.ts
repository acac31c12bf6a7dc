/** The words of alerts, and the values that are refused as alerts. */
import { describe, expect, test } from "vitest";
import { alertText } from "../../../shared/protocol/alert-text.ts";
import { alertOf, parseAlertId, readAlert } from "../../../shared/protocol/alerts.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { HANDOFF_FAILURES } from "../../../shared/protocol/handoff-states.ts";

const handoffId = "01a20034-080b-7e0f-afff-92b62777977f";

const about = { tenant: "default", task: "auth", occasion: "17", nowMs: Date.UTC(2026, 0, 4) };
const failed = (reason: (typeof HANDOFF_FAILURES)[number], tenant = "default") =>
  alertOf("HANDOFF_FAILED", "critical", {
    ...about,
    tenant,
    data: { handoffId, taskId: "auth", state: "escalated", reason },
  });
const dead = alertOf("COMMAND_DEAD", "warning", {
  ...about,
  occasion: "FLEET_QUEUE-1-1768000000000",
  data: { stream: "FLEET_QUEUE", reason: "not_found", commandId: null },
});

describe("text", () => {
  test("states what happened, what to do, and the command to start with", () => {
    expect(alertText(failed("no_agent"))).toEqual({
      what: "Task auth is blocked: no agent accepted any of its offers in time.",
      todo: "Start an agent of the type that it was offered to, then offer the task again (recovery run, or else handoff).",
      command: `fleet handoff show ${handoffId}`,
      acknowledge: "fleet alerts ack default/auth/17",
    });
    expect(alertText(dead)).toMatchObject({
      what: "A queued command of task auth could not be applied: not_found.",
      todo: "Find out what is wrong with it, then retry or drop it.",
      command: "fleet queue dead list",
    });
  });

  test("names the tenant unless it is the default, and the program by its given name", () => {
    expect(alertText(failed("chain_broken", "acme"), "npx fleet")).toMatchObject({
      command: "npx fleet audit verify auth --tenant acme",
      acknowledge: "npx fleet alerts ack acme/auth/17 --tenant acme",
    });
  });

  test("every failure of a handoff has its own sentences, without markup characters of chats", () => {
    const texts = HANDOFF_FAILURES.map((reason) => alertText(failed(reason)));
    for (const { what, todo } of texts) {
      expect(what).toContain("auth");
      for (const sentence of [what, todo]) expect(sentence).toMatch(/^[A-Z][^<>&]*\.$/);
    }
    expect(new Set(texts.map(({ what }) => what)).size).toBe(7);
  });

  test("the alert of a blocked task names its agent and quotes the agent's report", () => {
    const why = { reason: "attempts_spent", attempts: 5 } as const;
    const blocked = (agentId: string | null, details: string | null, failed: "crash" | null = "crash") =>
      alertText(
        alertOf("RECOVERY_BLOCKED", "critical", {
          ...about,
          data: { taskId: "auth", class: failed, ...why, agentId, details },
        }),
      ).what;
    expect(blocked("agent-7", "no space left on device")).toBe(
      "Task auth is blocked after agent-7 failed (crash): attempts spent, 5 attempts made; details: no space left on device.",
    );
    expect(blocked("agent-7", "Bad key!")).toMatch(/; details: Bad key!$/);
    expect(blocked(null, null, null)).toBe("Task auth is blocked: attempts spent, 5 attempts made.");
    expect(blocked(null, null)).toBe(
      "Task auth is blocked after its agent failed (crash): attempts spent, 5 attempts made.",
    );
  });

  test("the alert of a task whose program was not found states that, and what to do", () => {
    const text = (details: string | null, reason: "attempts_spent" | "no_agent" = "attempts_spent") =>
      alertText(
        alertOf("RECOVERY_BLOCKED", "critical", {
          ...about,
          data: { taskId: "auth", class: "not_started", reason, attempts: 5, agentId: "qa-7", details },
        }),
      );
    expect(text("could not be started: the program ./qa-agent was not found")).toMatchObject({
      what: "Task auth is blocked: qa-7 could not be started: the program ./qa-agent was not found; attempts spent, 5 attempts made.",
      todo: "Install the program, or correct the settings of its runner, then restore the budget of the task (recovery reset).",
    });
    expect(text(null, "no_agent")).toMatchObject({
      what: "Task auth is blocked: qa-7 could not be started; no agent, 5 attempts made.",
      todo: "No agent accepted it. Start an agent of its type, then run the recovery again (recovery run).",
    });
  });

  test("the reason of a block is stated once, also if it is the failure class", () => {
    const data = { taskId: "auth", reason: "unrecoverable", class: "unrecoverable" } as const;
    const alert = alertOf("RECOVERY_BLOCKED", "critical", {
      ...about,
      data: { ...data, agentId: "agent-7", details: null, attempts: 0 },
    });
    expect(alertText(alert).what).toBe(
      "Task auth is blocked after agent-7 failed: unrecoverable, 0 attempts made.",
    );
  });

  test("the agent type of an unaccepted offer is named, so that a pager says which agent to start", () => {
    const alert = failed("no_agent");
    const facts = { toAgentType: "qa", recoveryAttempt: 2 };
    expect(alertText({ ...alert, data: { ...alert.data, ...facts } })).toMatchObject({
      what: "Task auth is blocked: no agent of type qa accepted any of its offers in time, at recovery attempt 2.",
      todo: "Start an agent of type qa, then offer the task again (recovery run).",
    });
    const lapsed = failed("no_first_checkpoint");
    expect(alertText({ ...lapsed, data: { ...lapsed.data, acceptedBy: "agent-8" } }).what).toBe(
      "Agent agent-8 accepted task auth but wrote no checkpoint in time.",
    );
  });

  test("an alert of a newer version is shown as such", () => {
    expect(alertText({ ...dead, type: "SUN_WENT_DARK", data: null }).what).toMatch(/^SUN_WENT_DARK: /);
  });
});

describe("reading", () => {
  test("accepts every alert that the fleet writes, of any type", () => {
    for (const alert of [dead, failed("no_agent")]) expect(readAlert(alert)).toEqual(alert);
    expect(readAlert({ ...dead, type: "LATER", data: 7 })).toMatchObject({ type: "LATER", data: 7 });
    expect(parseAlertId(dead.id)).toEqual({
      ...{ tenant: "default", task: "auth", occasion: "FLEET_QUEUE-1-1768000000000" },
    });
  });

  test.each([
    ["id", { id: "auth/17" }],
    ["id", { id: "default/auth/17\r\nx: y" }],
    ["subject", { subject: "a b" }],
    ["severity", { severity: "mild" }],
    ["time", { time: "now" }],
    [
      "data.handoffId",
      { ...failed("no_agent"), data: { ...failed("no_agent").data, handoffId: "; reboot" } },
    ],
    ["data", { data: null }],
  ])("refuses a wrong %s", (path, wrong) => {
    const refused = (() => {
      try {
        return readAlert({ ...dead, ...wrong });
      } catch (error) {
        return error;
      }
    })();
    expect(refused).toBeInstanceOf(FleetError);
    expect((refused as FleetError).fields).toMatchObject([{ path }]);
  });
});
