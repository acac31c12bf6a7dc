/** The rows of `committer.program.ts`. The log lies between the two halves of the others, and rows that no commit changes lie between them too. */
const BEGIN = 0x10;
const LOG = 0x30;
const END = 0x50;
const EACH = 50;

export const ROUND_KEYS: readonly Buffer[] = [BEGIN, END].flatMap((place) =>
  Array.from({ length: EACH }, (_, n) => Buffer.of(place, n)),
);

export const logKey = (n: number): Buffer => {
  const key = Buffer.alloc(5, LOG);
  key.writeUInt32BE(n, 1);
  return key;
};

export const roundValue = (n: number): Buffer => Buffer.alloc(200, `${n} `);

/** Of the rows in their order: the number of commits that they have. Throws if that is no beginning of the commits, whole and alone. */
export function commitsIn(rows: readonly { readonly key: Buffer; readonly value: Buffer }[]): number {
  const at = (place: number) => rows.filter(({ key }) => key[0] === place);
  const log = at(LOG);
  const whole = [
    ...ROUND_KEYS.slice(0, EACH).map((key) => ({ key, value: roundValue(log.length) })),
    ...log.map((_, i) => ({ key: logKey(i + 1), value: roundValue(i + 1) })),
    ...ROUND_KEYS.slice(EACH).map((key) => ({ key, value: roundValue(log.length) })),
  ];
  const found = [...at(BEGIN), ...log, ...at(END)];
  const isSame =
    found.length === whole.length &&
    found.every(({ key, value }, i) => key.equals(whole[i]!.key) && value.equals(whole[i]!.value));
  if (!isSame) throw new Error(`the rows are not those of the first ${log.length} commits`);
  return log.length;
}
