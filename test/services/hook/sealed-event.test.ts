// The form of sealed events: what stands beside them in clear names places of keys and nothing else, and a changed one is never taken for a plain one.

import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { sealedEvent } from "../../../deploy/hook/seal.mjs";
import { openedEvent, SealedEvent } from "../../../services/hook/inbox/sealed-event.ts";

const NAME = "00001800000000-1.event";
const EVENT = 'vendor=codex\nevent=Stop\n\n{"session_id":"s"}';
const env = { NEW_KEY: randomBytes(32).toString("base64"), OLD_KEY: randomBytes(32).toString("base64") };
const PASTED = randomBytes(32).toString("base64");

test.each(["env:NEW_KEY", " env:NEW_KEY ,, env:OLD_KEY,", "env:NEW_KEY\n,\nfile:/keys/old\n"])(
  "the setting %j is written on one line, and opens the event",
  (sources) => {
    const sealed = sealedEvent(EVENT, NAME, sources, env);
    expect(sealed.split("\n").length).toBe(4);
    expect(openedEvent(sealed, NAME, env)).toBe(EVENT);
  },
);

test.each([
  PASTED,
  `env:NEW_KEY,${PASTED}`,
  `env:NEW_KEY,file:/keys/old\n${PASTED}`,
  `env:NEW_KEY\nenv:OLD_KEY`,
  "env:NEW_KEY,file:keys/old",
  " , ",
])("the setting %j seals nothing, and is not repeated", (sources) => {
  let message = "";
  try {
    sealedEvent(EVENT, NAME, sources, env);
  } catch (error) {
    message = (error as Error).message;
  }
  expect(message).toContain("names no file:/path");
  expect(message).not.toContain(PASTED);
});

test("a text that begins like a sealed event and has another form is no plain event", () => {
  const sealed = sealedEvent(EVENT, NAME, "env:NEW_KEY", env);
  for (const text of [
    sealed.replace("env:NEW_KEY\n", "env:NEW_KEY\nenv:OLD_KEY\n"),
    "sealed=1\n",
    "sealed=10\n\n{}",
  ])
    expect(() => openedEvent(text, NAME, env)).toThrow(SealedEvent);
  expect(openedEvent(EVENT, NAME, env)).toBe(EVENT);
});

test("a key with a path in a working folder is not read in another one", () => {
  const sealed = sealedEvent(EVENT, NAME, "env:NEW_KEY", env).replace("env:NEW_KEY", "file:NEW_KEY");
  expect(() => openedEvent(sealed, NAME, env)).toThrow(
    expect.objectContaining({
      details: expect.objectContaining({ problems: [expect.stringContaining("root")] }),
    }),
  );
});
