# Appends through redirects, several at a time, for some seconds: each must be made once and in order.
import os, rados, sys, time

seconds = int(sys.argv[1])
c = rados.Rados(conffile=os.environ['CEPH_CONF'])
c.connect()
base, tgt = c.open_ioctx('base'), c.open_ioctx('tgt')
objects = range(8)
expected = [b''] * len(objects)
number = 0
end = time.monotonic() + seconds
while time.monotonic() < end:
    under_way = []
    for _ in range(4):
        for at in objects:
            number += 1
            piece = b'%d.' % number
            expected[at] += piece
            under_way.append(base.aio_append(f'o{at}', piece))
    for completion in under_way:
        completion.wait_for_complete_and_cb()
        assert completion.get_return_value() == 0, completion.get_return_value()
    at = number // 32 % len(objects)
    found = base.read(f'o{at}', len(expected[at]) + 100)
    assert found == expected[at], (at, found[-60:], expected[at][-60:])
for at in objects:
    found = tgt.read(f't{at}', len(expected[at]) + 100)
    assert found == expected[at], (at, len(found), len(expected[at]))
base.close(); tgt.close(); c.shutdown()
print(number, 'appends')
