// Log lines as machines read them.

import { expect, test } from "vitest";
import { createLogger, type LogOptions } from "../../../../shared/runtime/observability/log.ts";
import { joined, SECRET_PART, WRITTEN_SECRETS } from "../../protocol/secrets.ts";

function lines(write: (log: ReturnType<typeof createLogger>) => void, options: Partial<LogOptions> = {}) {
  const written: string[] = [];
  write(
    createLogger({ service: "writer", ...options, destination: { write: (line) => written.push(line) } }),
  );
  return written.map((line) => JSON.parse(line));
}

test("a line has ISO time, level as a word, service, text and fields", () => {
  const [line] = lines((log) => log.info({ task_id: "t1" }, "checkpoint written"));
  expect(line).toMatchObject({ level: "info", service: "writer", task_id: "t1", msg: "checkpoint written" });
  expect(new Date(line.time).toISOString()).toBe(line.time);
});

test("secrets are redacted by name, at the top and one level below", () => {
  const secret = "hunter2";
  const [line] = lines((log) =>
    log.info({ token: secret, headers: { authorization: secret }, config: { password: secret } }, "x"),
  );
  expect(JSON.stringify(line)).not.toContain(secret);
  expect(line.headers.authorization).toBe("[secret]");
});

test.each(WRITTEN_SECRETS)("secrets are redacted by their shapes: %s", (_, secret) => {
  const cause = new Error(`cannot read ${secret}`);
  const error = Object.assign(new Error(`refused ${secret}`, { cause }), { given: { deep: [secret] } });
  const [line] = lines((log) => log.warn({ error, problem: secret, parts: [{ [secret]: secret }] }, "x"));
  expect(joined(JSON.stringify(line))).not.toMatch(SECRET_PART);
  expect(line.error.stack).toContain("refused");
  expect(line.problem).toContain("[redacted: ");
});

test("an error keeps its type, message, stack, cause and fields", () => {
  const error = Object.assign(new Error("no lease", { cause: new Error("gone") }), { code: "fenced" });
  const [line] = lines((log) => log.warn({ error }, "write refused"));
  expect(line.error).toMatchObject({ type: "Error", code: "fenced" });
  expect(line.error.stack).toContain("log.test.ts");
  expect(line.error.stack).toContain("gone");
});

test("a line for a terminal is text with its fields and the stack of its error", () => {
  const written: string[] = [];
  const log = createLogger({
    service: "writer",
    pretty: true,
    destination: { write: (line) => written.push(line) },
  });
  log.warn({ task_id: "t1\u001b[2J", error: new Error("no lease") }, "write refused");
  const [text = ""] = written;
  expect(text).toMatch(
    /^\[\d\d:\d\d:\d\d\.\d{3}\] \S*WARN\S*: writer: write refused \{"task_id":"t1\S*"\}\n {4}Error: no lease\n {4} +at /,
  );
  expect(text).not.toContain("\u001b[2J");
});

test("the level holds, and may be changed while running", () => {
  const written = lines(
    (log) => {
      log.info("hidden");
      log.level = "debug";
      log.debug("shown");
    },
    { level: "warn" },
  );
  expect(written.map((line) => line.msg)).toEqual(["shown"]);
});
