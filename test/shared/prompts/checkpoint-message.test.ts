// The checkpoint message (seed 001): a structured debrief, as a document that a fleet may replace.

import { expect, test } from "vitest";
import { checkpointMessage, isCheckpointMessage } from "../../../shared/prompts/checkpoint-message.ts";

const INPUT = { taskId: "login", agentType: "qa", fence: 3 };

test("seed 001 message: first validate the work, then capture the artifacts, with a command that is complete", () => {
  const text = checkpointMessage(INPUT);
  const [validate, capture] = [text.indexOf("Validate the work"), text.indexOf("Capture the artifacts")];
  expect(validate).toBeGreaterThan(0);
  expect(capture).toBeGreaterThan(validate);
  expect(text).toContain("fleet checkpoint --task login --fence 3 --type qa --phase implementing");
  for (const part of ["--goal", "--completed", "--pending", "--decision", "--next"])
    expect(text).toContain(part);
});

test("seed 001 message: a document of the fleet replaces the text, and hooks still know it again", () => {
  const text = checkpointMessage({ ...INPUT, document: "Debrief {task}: {command}" });
  expect(text).toMatch(/Debrief login: fleet checkpoint --task login /);
  expect(text).not.toContain("Validate the work");
  for (const prompt of [text, checkpointMessage(INPUT), `As asked:\n${text}`])
    expect(isCheckpointMessage(prompt)).toBe(true);
  expect(isCheckpointMessage("Write a checkpoint of the login")).toBe(false);
});
