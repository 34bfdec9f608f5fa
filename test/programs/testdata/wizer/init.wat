(module (memory 1) (global $g (mut i32) (i32.const 0))
  (func (export "wizer.initialize") (global.set $g (i32.const 7))) (func (export "get") (result i32) (global.get $g)))
