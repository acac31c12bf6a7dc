/** One line of an export file, between its bytes and its value. */
import { canonicalText, sha256Hex } from "../integrity/canonical.ts";
import { parseJson } from "../integrity/json.ts";
import { FleetError } from "../protocol/errors.ts";
import { EXPORT_FORMAT, type ExportLine, exportLineSchema } from "../protocol/export-lines.ts";
import { validate } from "../protocol/validation.ts";

/** The file is not what an export writes. */
export class ExportFault extends Error {
  /** The number of the line, from 1. */
  readonly line: number;
  readonly problem: string;

  constructor(line: number, problem: string) {
    super(`line ${line}: ${problem}`);
    this.name = "ExportFault";
    this.line = line;
    this.problem = problem;
  }
}

/** The text of a line, without its line feed. */
export function exportLineText(line: ExportLine): string {
  return canonicalText(line);
}

/** Throws {@link ExportFault}, and UNSUPPORTED_VERSION for the header of a newer format. */
export function parseExportLine(bytes: Uint8Array, number: number): ExportLine {
  try {
    const value = parseJson(bytes);
    requireExportFormat(value);
    return validate(exportLineSchema, value);
  } catch (error) {
    if (!(error instanceof FleetError) || error.code === "UNSUPPORTED_VERSION") throw error;
    const [field] = error.fields ?? [];
    const got = field?.got === undefined ? "" : `, and not ${field.got}`;
    const path = field === undefined || field.path === "" ? "" : `${field.path}: `;
    const problem = field === undefined ? error.message : `${path}expected ${field.expected}${got}`;
    throw new ExportFault(number, problem);
  }
}

/** The fields of a newer format are not known, so its version is compared first. */
function requireExportFormat(value: unknown): void {
  const { kind, format, tool } = (value ?? {}) as { kind?: unknown; format?: unknown; tool?: unknown };
  if (kind !== "header" || typeof format !== "number" || format <= EXPORT_FORMAT) return;
  throw new FleetError("UNSUPPORTED_VERSION", "a newer version of Fleet wrote the file; nothing was read", {
    fields: [{ path: "format", expected: `at most ${EXPORT_FORMAT}`, got: String(format) }],
    details: { ...(typeof tool === "string" && { needs: tool }) },
  });
}

/** The hash of a checkpoint as it stands in a line. */
export function exportedHash(checkpoint: object): string {
  return sha256Hex(canonicalText(checkpoint));
}
