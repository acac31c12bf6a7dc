// The processes that main.test.ts starts, by the name of their scenario.

import { setTimeout as delay } from "node:timers/promises";
import { runMain } from "../../../../shared/runtime/process/main.ts";
import type { Stop } from "../../../../shared/runtime/process/service.ts";
import { StartupError } from "../../../../shared/runtime/process/startup.ts";
import { integer, readConfig } from "../../../../shared/runtime/settings/config.ts";

const hour = 3_600_000;

/** Keeps the process alive, like a server. */
function open(): { close(): void } {
  const timer = setInterval(() => {}, hour);
  return { close: () => clearInterval(timer) };
}

const scenarios: Record<string, (signal: AbortSignal) => Promise<Stop>> = {
  async clean() {
    const held = open();
    return async () => held.close();
  },
  async "slow stop"() {
    const held = open();
    return async () => {
      await delay(300);
      held.close();
    };
  },
  async "stop hangs"() {
    open();
    return () => new Promise(() => {});
  },
  async "stop fails"() {
    open();
    return () => Promise.reject(new Error("could not drain"));
  },
  async "leaves something open"() {
    open();
    return async () => {};
  },
  async "start hangs"(signal) {
    console.log("starting");
    await delay(hour, undefined, { signal });
    return async () => {};
  },
  async "unhandled rejection"() {
    open();
    setImmediate(() => void Promise.reject(new Error("not awaited")));
    return async () => {};
  },
  async "uncaught exception"() {
    open();
    setImmediate(() => {
      throw new Error("thrown on its own");
    });
    return async () => {};
  },
  async "port taken"() {
    open();
    throw new StartupError("the port is taken", { details: { port: 8080 }, hint: "choose another port" });
  },
  async "problem of a lower layer"() {
    throw Object.assign(new Error("x"), {
      startupProblem: "the library is missing",
      hint: "install it",
      exitCode: 69,
    });
  },
  async "wrong settings"() {
    readConfig({ port: integer("FLEET_PORT", { description: "port" }) }, { FLEET_PORT: "abc" });
    return async () => {};
  },
  async "defect at start"() {
    throw new TypeError("cannot read properties of undefined");
  },
};

const scenario = scenarios[process.argv[2] ?? ""];
if (scenario === undefined) throw new Error("no such scenario");
await runMain({
  service: "writer",
  stopTimeoutMs: Number(process.argv[3] ?? 15_000),
  start: async ({ log }, signal) => {
    const stop = await scenario(signal);
    log.info("started");
    return stop;
  },
});
