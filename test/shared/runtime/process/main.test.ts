// How a process ends, seen from outside: real processes, signals, exit codes and output.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";

interface Ending {
  code: number | null;
  stdout: string;
  stderr: string;
}

/**
 * Starts a scenario of main.program.ts and sends each signal as soon as the text before it has been written.
 */
async function run(
  scenario: string,
  script: [seen: string, signal: NodeJS.Signals][] = [],
  { args = [], env = {} }: { args?: string[]; env?: Record<string, string> } = {},
): Promise<Ending> {
  const program = new URL("main.program.ts", import.meta.url).pathname;
  // Below the timeout of a test, so that a failed scenario leaves no process behind.
  const child = spawn(process.execPath, [program, scenario, ...args], {
    timeout: 20_000,
    killSignal: "SIGKILL",
    env: { ...process.env, ...env },
  });
  const ending: Ending = { code: null, stdout: "", stderr: "" };
  const steps = [...script];
  child.stdout.on("data", (chunk) => {
    ending.stdout += chunk;
    for (let step = steps[0]; step !== undefined && ending.stdout.includes(step[0]); step = steps[0]) {
      steps.shift();
      child.kill(step[1]);
    }
  });
  child.stderr.on("data", (chunk) => {
    ending.stderr += chunk;
  });
  [ending.code] = await once(child, "close");
  return ending;
}

const messages = ({ stdout }: Ending) =>
  stdout
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line).msg);

test.concurrent.each<[string, NodeJS.Signals]>([
  ["clean", "SIGTERM"],
  ["clean", "SIGINT"],
  ["slow stop", "SIGTERM"],
])("%s: %s stops gracefully with exit code 0", async (scenario, signal) => {
  const ending = await run(scenario, [['"started"', signal]]);
  expect(messages(ending)).toEqual(["started", "stopping", "stopped"]);
  expect(ending).toMatchObject({ code: 0, stderr: "" });
});

test.concurrent("an unknown setting is logged with the name that was probably meant, without its value", async () => {
  const env = { FLEET_SOTRE: "hunter2" };
  const { code, stdout } = await run("clean", [['"started"', "SIGTERM"]], { env });
  const [warning] = stdout.split("\n").map((line) => line && JSON.parse(line));
  expect(warning).toMatchObject({ level: "warn", name: "FLEET_SOTRE", meant: "FLEET_STORE" });
  expect(stdout).not.toContain("hunter2");
  expect(code).toBe(0);
});

test.concurrent("the level of the settings also holds before the start", async () => {
  const env = { FLEET_LOG_LEVEL: "error", FLEET_SOTRE: "lmdb" };
  const { code, stdout } = await run("unhandled rejection", [], { env });
  expect(stdout.trim().split("\n")).toHaveLength(1);
  expect(JSON.parse(stdout)).toMatchObject({ level: "fatal", msg: "unhandled rejection" });
  expect(code).toBe(70);
});

test.concurrent("a second SIGTERM ends the process at once with the code of the signal", async () => {
  const ending = await run("stop hangs", [
    ['"started"', "SIGTERM"],
    ['"stopping"', "SIGTERM"],
  ]);
  expect(messages(ending)).toEqual(["started", "stopping", "stopping at once"]);
  expect(ending.code).toBe(143);
});

test.concurrent("SIGINT after SIGTERM ends the process at once", async () => {
  const ending = await run("stop hangs", [
    ['"started"', "SIGTERM"],
    ['"stopping"', "SIGINT"],
  ]);
  expect(ending.code).toBe(130);
});

// Not concurrent, because the second signal must arrive soon. Not sent together with the first, because the
// kernel would merge the two.
test("one Ctrl-C that arrives twice, from the terminal and from npm, counts once", async () => {
  const ending = await run("slow stop", [
    ['"started"', "SIGINT"],
    ['"stopping"', "SIGINT"],
  ]);
  expect(messages(ending)).toEqual(["started", "stopping", "stopped"]);
  expect(ending.code).toBe(0);
});

test.concurrent("an interrupted start is a clean stop", async () => {
  const ending = await run("start hangs", [["starting", "SIGTERM"]]);
  expect(messages(ending)).toEqual(["stopping", "start given up", "stopped"]);
  expect(ending).toMatchObject({ code: 0, stderr: "" });
});

test.concurrent.each<[string, string[], number, string]>([
  ["stop hangs", ["100"], 70, "stopping took too long"],
  ["stop fails", [], 70, "stopping failed"],
  ["leaves something open", [], 0, "something kept the process alive after the stop"],
])("%s", async (scenario, args, code, last) => {
  const ending = await run(scenario, [['"started"', "SIGTERM"]], { args });
  expect(messages(ending).at(-1)).toBe(last);
  expect(ending.code).toBe(code);
});

test.concurrent.each([
  ["unhandled rejection", "not awaited"],
  ["uncaught exception", "thrown on its own"],
  ["defect at start", "cannot read properties of undefined"],
])("%s is fatal and logged with its stack", async (scenario, text) => {
  const ending = await run(scenario);
  const fatal = JSON.parse(ending.stdout.trim().split("\n").at(-1) ?? "");
  expect(fatal).toMatchObject({ level: "fatal", error: { message: text } });
  expect(fatal.error.stack).toContain("main.program.ts");
  expect(ending.code).toBe(70);
});

test.concurrent.each([
  ["port taken", 1, "writer: the port is taken (port=8080); choose another port\n"],
  ["problem of a lower layer", 69, "writer: the library is missing; install it\n"],
  ["wrong settings", 78, 'writer: the settings are not usable:\n  FLEET_PORT: expected integer; got "abc"\n'],
])("%s: one clear text on stderr and nothing else", async (scenario, code, stderr) => {
  expect(await run(scenario)).toEqual({ code, stdout: "", stderr });
});
