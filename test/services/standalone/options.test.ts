/** The command line of `npm start`: options become settings, and a wrong call gets its suggestion and exit code 64. */
import { expect, test } from "vitest";
import { readCall } from "../../../services/standalone/options.ts";

const npm = { npm_lifecycle_event: "start" };

test("options become settings, in both forms", () => {
  expect(readCall([], npm)).toEqual({ kind: "start", settings: {} });
  expect(readCall(["--port", "5222", "--ops-port=0", "--home", "./other"], npm)).toEqual({
    kind: "start",
    settings: { FLEET_NATS_PORT: "5222", FLEET_OPS_PORT: "0", FLEET_HOME: "./other" },
  });
});

test("the help has every option and the call that the user made", () => {
  for (const word of ["--help", "-h"]) {
    const call = readCall(["--port", "many", word], npm);
    expect(call).toMatchObject({ kind: "end", exitCode: 0 });
    const { text } = call as { text: string };
    for (const part of ["usage: npm start --", "--port N", "--ops-port N", "--home PATH", "  73  "])
      expect(text).toContain(part);
  }
});

test.each([
  [["--prot", "5222"], "unknown option --prot; did you mean `--port`"],
  [["--verbose"], "unknown option --verbose."],
  [["5222"], 'unexpected argument "5222"; did you mean `--port`'],
  [["up"], 'unexpected argument "up".'],
  [["--port"], "--port: expected a whole number from 1 to 65535; got nothing"],
  [["--port", "0"], '--port: expected a whole number from 1 to 65535; got "0"'],
  [["--port=many"], '--port: expected a whole number from 1 to 65535; got "many"'],
  [["--ops-port", "70000"], "--ops-port: expected a whole number from 0 to 65535"],
  [["--home", "--port", "1"], "--home: expected a path"],
])("%j is refused", (argv, text) => {
  const call = readCall(argv, {});
  expect(call).toMatchObject({ kind: "end", exitCode: 64 });
  expect((call as { text: string }).text).toContain(text);
  expect((call as { text: string }).text).toMatch(/See `node services\/standalone\/main.ts --help`\.\n$/);
});

test("an option that npm took for itself is refused with the right call", () => {
  const text = (argv: string[], env: NodeJS.ProcessEnv) =>
    (readCall(argv, { ...npm, ...env }) as { text: string }).text;
  expect(text(["5222"], { npm_config_port: "true" })).toContain("did you mean `npm start -- --port 5222`");
  expect(text([], { npm_config_ops_port: "9222" })).toContain("did you mean `npm start -- --ops-port 9222`");
  expect(readCall([], { npm_config_port: "5222" })).toMatchObject({ kind: "start" });
});
